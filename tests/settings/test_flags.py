"""The command line: which arguments it accepts, and the errors for others."""

import pytest

from settings import flags
from settings.schema import NAMES, BadSetting


def test_flags_are_read_with_and_without_an_equals_sign() -> None:
    command = flags.parse(["--port=1", "--host", "0.0.0.0", "--model", "acme/tiny", "--check"])
    assert command.flags.values == {"PORT": "1", "HOST": "0.0.0.0", "MODEL": "acme/tiny"}
    assert command.actions == {"--check"}


def test_every_setting_has_a_flag() -> None:
    assert set(flags.FLAGS.values()) >= set(NAMES)


def test_an_unknown_flag_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadSetting, match="--prot is not a flag; did you mean --port"):
        flags.parse(["--prot=1"])


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("--device", "auto, cpu or cuda"),
        ("--listen-port", "a whole number, 0 to 65535"),
        ("--payload-limit", "a whole number of bytes"),
        ("--quantize", "none, bitsandbytes, eetq"),
        ("--ngrok-authtoken", "text"),
    ],
)
def test_a_flag_without_its_value_is_refused_with_the_rule(flag: str, rule: str) -> None:
    with pytest.raises(BadSetting, match=f"{flag} needs a value: {rule}"):
        flags.parse([flag, "--check"])


@pytest.mark.parametrize(("short", "action"), [("-h", "--help"), ("-e", "--env")])
def test_an_action_has_a_short_name(short: str, action: str) -> None:
    assert flags.parse([short]).actions == {action}


def test_a_setting_has_a_short_name() -> None:
    assert flags.parse(["-p", "80", "-g=5"]).flags.values == {"PORT": "80", "DRAIN_SECONDS": "5"}


def test_an_action_can_be_switched_off() -> None:
    assert flags.parse(["--env=false", "--check", "true"]).actions == {"--check"}
    with pytest.raises(BadSetting, match="--check takes no value but true or false, not 'now'"):
        flags.parse(["--check=now"])


def test_a_number_below_zero_is_a_value() -> None:
    assert flags.parse(["--watermark-delta", "-2"]).flags.values == {"WATERMARK_DELTA": "-2"}
