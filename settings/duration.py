"""Durations as Ollama writes them, in Go's syntax: "5m", "1h30m", "-1", or a number of seconds."""

import re
from math import inf
from typing import Any, NewType

Duration = NewType("Duration", float)  # seconds; inf: without an end

UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
TERM = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")


def parse_duration(value: Any) -> Duration:
    """The seconds; inf for a duration below 0. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    text = str(value).strip()
    is_endless, text = text.startswith("-"), text.removeprefix("-")
    if NUMBER.fullmatch(text):
        seconds = float(text)
    elif not (terms := TERM.findall(text)) or "".join(map("".join, terms)) != text:
        raise ValueError
    else:
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in terms)
    return Duration(inf if is_endless and seconds else seconds)
