"""Durations in Ollama's syntax."""

from math import inf

import pytest

from settings.duration import parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("300ms", 0.3),
        ("90", 90),
        (90, 90),
        ("0", 0),
        (0, 0),
        ("-1", inf),
        (-1, inf),
        ("-5m", inf),
    ],
)
def test_every_form_of_a_duration_is_read(value: str | int, seconds: float) -> None:
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["", "m", "5 m", "5x", "5m3", "-", True, None, "1:30"])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(value)
