"""Which known name the message about an unknown one suggests, or none."""

import pytest

from settings.flags import parse
from settings.schema import NAMES, BadSetting
from settings.unknown_names import describe_unknown, find_nearest


@pytest.mark.parametrize(
    ("flag", "nearest"),
    [
        ("--max-squences", "--max-sequences"),
        ("--prot", "--port"),
        ("--max-seqs", "--max-num-seqs"),
        ("--model-len", "--max-model-len"),
        ("--gpu-memory", "--gpu-memory-utilization"),
        ("--allow-credential", "--allow-credentials"),
        ("--alow-pickle", "--allow-pickle"),
        ("--chek", "--check"),
    ],
)
def test_a_flag_with_a_typo_or_a_word_too_few_is_suggested(flag: str, nearest: str) -> None:
    with pytest.raises(BadSetting, match=f"^{flag} is not a flag; did you mean {nearest}[?]"):
        parse([flag, "3"])


@pytest.mark.parametrize(
    "flag", ["--allow-cookies", "--allow-credits", "--model-owner", "--frobnicate", "-xyz"]
)
def test_no_flag_is_suggested_if_none_means_the_same(flag: str) -> None:
    with pytest.raises(BadSetting, match=f"^{flag} is not a flag; --help lists them all$"):
        parse([flag, "3"])


def test_a_flag_is_never_guessed_from_its_beginning() -> None:
    for flag in ("--po", "-ngx", "-portable"):
        with pytest.raises(BadSetting, match=f"^{flag} is not a flag"):
            parse([flag, "3"])


def test_credentials_are_not_pickles() -> None:
    assert find_nearest("ALLOW_CREDENTIALS", [name for name in NAMES if name != "CORS_CREDENTIALS"]) == ""


def test_a_setting_is_suggested_in_its_own_spelling() -> None:
    assert describe_unknown("max_sequence", NAMES, "setting") == (
        "max_sequence is not a setting; did you mean MAX_SEQUENCES?"
    )
    assert describe_unknown("COLOUR", NAMES, "setting") == "COLOUR is not a setting"
