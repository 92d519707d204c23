"""The types that a setting may have, and how a value of a type is parsed, checked and described.

A value comes as text, or as a Python object from config.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, get_args, get_origin

from settings.duration import Duration, parse_duration
from settings.model_list import ServedModels, parse_models
from settings.replicas import ReplicaSpec, parse_replicas

BOOLEANS = {"true": True, "1": True, "yes": True, "on": True}
BOOLEANS |= {"false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Limits:
    low: float
    high: float = float("inf")


NonNegativeInt = Annotated[int, Limits(0)]
PositiveInt = Annotated[int, Limits(1)]
NonNegativeFloat = Annotated[float, Limits(0)]
Port = Annotated[int, Limits(0, 65535)]


def parse(kind: Any, value: Any) -> Any:
    """Convert `value` to the type `kind` and check its limits or options. Raises ValueError."""
    if get_origin(kind) is Annotated:
        number, limits = get_args(kind)
        return check_limits(parse(number, value), limits)
    if get_origin(kind) is Literal:
        return check_option(get_args(kind), value)
    return PARSERS[get_origin(kind) or kind](value)


def describe(kind: Any) -> str:
    """Which values the type `kind` allows, in words that follow 'must be'."""
    if get_origin(kind) is Annotated:
        number, limits = get_args(kind)
        end = "or more" if limits.high == float("inf") else f"to {limits.high:g}"
        return f"{DESCRIPTIONS[number]}, {limits.low:g} {end}"
    if get_origin(kind) is Literal:
        *others, last = get_args(kind)
        return f"{', '.join(others)} or {last}"
    return DESCRIPTIONS[get_origin(kind) or kind]


def is_switch(kind: Any) -> bool:
    return kind is bool


def is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def check_limits(value: float, limits: Limits) -> float:
    if not limits.low <= value <= limits.high:
        raise ValueError
    return value


def check_option(options: tuple[str, ...], value: Any) -> str:
    if value not in options:
        raise ValueError
    return str(value)


def parse_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return BOOLEANS[check_option(tuple(BOOLEANS), str(value).lower())]


def parse_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def parse_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not isfinite(float(value)):
        raise ValueError
    return float(value)


def parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def parse_list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(parse_text(item) for item in value)


PARSERS: Mapping[Any, Callable[[Any], Any]] = {
    bool: parse_bool,
    int: parse_int,
    float: parse_float,
    str: parse_text,
    tuple: parse_list,
    ServedModels: parse_models,
    ReplicaSpec: parse_replicas,
    Duration: parse_duration,
}
DESCRIPTIONS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "text, several values separated by commas",
    ServedModels: "a list of models",
    ReplicaSpec: 'a number such as "4", a range such as "2..8", or servers such as "http://a:8000,http://b:8000"',
    Duration: 'a duration such as "5m" or "1h30m", or seconds; below 0: without an end',
}
