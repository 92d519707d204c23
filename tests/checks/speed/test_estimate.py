"""The formulas of the speed, by numbers computed by hand, and how the estimate is printed."""

import pytest

from checks.speed.estimate import (
    STEP_CALLS,
    Rates,
    SpeedEstimate,
    TokenWork,
    UnknownSpeed,
    estimate,
    format_number,
)

WORK = TokenWork(layer_bytes=800_000_000, head_bytes=100_000_000, products=400_000_000)
RATES = Rates(layer_bytes=40e9, head_bytes=20e9, products=500e9)


def test_a_token_reads_the_weights_of_the_layers_and_of_the_head() -> None:
    assert estimate(WORK, RATES).tokens_per_s == pytest.approx(1 / (0.020 + 0.005))


def test_a_prompt_computes_its_tokens_and_reads_the_head_once() -> None:
    assert estimate(WORK, RATES).first_token_s == pytest.approx(1000 * 0.0008 + 0.005)


def test_the_engine_s_own_calls_lengthen_every_step() -> None:
    slow = estimate(WORK, Rates(40e9, 20e9, 500e9, call_s=1e-6))
    assert 1 / slow.tokens_per_s == pytest.approx(0.025 + STEP_CALLS * 1e-6)
    assert slow.first_token_s == pytest.approx(0.805 + STEP_CALLS * 1e-6)


def test_a_limit_is_printed_as_one() -> None:
    lines = SpeedEstimate(123.4, 0.5, is_limit=True).describe()
    assert any(line.endswith("at most 123 tokens/s") for line in lines)
    assert any(line.endswith("at least 0.5 s") for line in lines)


@pytest.mark.parametrize(
    ("number", "text"), [(1964.2, "1,964"), (123.4, "123"), (43.12, "43.1"), (0.04376, "0.0438")]
)
def test_large_and_small_numbers_are_legible(number: float, text: str) -> None:
    assert format_number(number) == text


def test_the_load_of_other_programs_is_mentioned_if_it_matters() -> None:
    quiet, busy = (SpeedEstimate(12.34, 0.5, other_load=load).describe() for load in (0.05, 0.6))
    assert quiet[0] == "estimated speed of an idle machine:"
    assert "others used 60% of the processor" in busy[0]
    assert quiet[1].endswith(" 12.3 tokens/s")


def test_a_known_start_is_printed() -> None:
    assert SpeedEstimate(10.0, 2.0, startup_s=2.345).to_json()["startup_seconds"] == 2.35
    assert SpeedEstimate(10.0, 2.0, startup_s=2.345).describe()[3].split()[-2:] == ["2.35", "s"]
    assert len(SpeedEstimate(10.0, 2.0).describe()) == 3


def test_the_json_has_numbers_or_the_reason_for_their_absence() -> None:
    assert SpeedEstimate(10.0, 2.0).to_json() == {
        "tokens_per_second": 10.0,
        "first_token_seconds": 2.0,
        "prompt_tokens": 1000,
        "startup_seconds": None,
        "is_limit": False,
        "other_load": 0.0,
    }
    assert UnknownSpeed("no reason").to_json() == {"reason": "no reason"}
