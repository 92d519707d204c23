"""What a setting's value may be: how it is read, from text or as Python made it, and the rule it must obey.

Knows kinds of values, as type hints say them; no setting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, get_args, get_origin


@dataclass(frozen=True, slots=True)
class Limits:
    low: float
    high: float = float("inf")


Natural = Annotated[int, Limits(0)]
Positive = Annotated[int, Limits(1)]
Amount = Annotated[float, Limits(0)]
Port = Annotated[int, Limits(0, 65535)]


def read(kind: Any, value: Any) -> Any:
    """The value in its kind. Raises ValueError."""
    if get_origin(kind) is Annotated:
        number, limits = get_args(kind)
        return within(read(number, value), limits)
    if get_origin(kind) is Literal:
        return member(get_args(kind), value)
    return READERS[get_origin(kind) or kind](value)


def rule(kind: Any) -> str:
    """What a value of this kind must be, to follow 'must be'."""
    if get_origin(kind) is Annotated:
        number, limits = get_args(kind)
        end = "or more" if limits.high == float("inf") else f"to {limits.high:g}"
        return f"{RULES[number]}, {limits.low:g} {end}"
    if get_origin(kind) is Literal:
        *others, last = get_args(kind)
        return f"{', '.join(others)} or {last}"
    return RULES[get_origin(kind) or kind]


def is_switch(kind: Any) -> bool:
    return kind is bool


def is_list(kind: Any) -> bool:
    return get_origin(kind) is tuple


def within(value: float, limits: Limits) -> float:
    if not limits.low <= value <= limits.high:
        raise ValueError
    return value


def member(options: tuple[str, ...], value: Any) -> str:
    if value not in options:
        raise ValueError
    return str(value)


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return SWITCHES[member(tuple(SWITCHES), str(value).lower())]


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not isfinite(float(value)):
        raise ValueError
    return float(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def listed(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(text(item) for item in value)


SWITCHES = {"true": True, "1": True, "yes": True, "on": True}
SWITCHES |= {"false": False, "0": False, "no": False, "off": False}
READERS: Mapping[Any, Callable[[Any], Any]] = {
    bool: switch,
    int: whole,
    float: number,
    str: text,
    tuple: listed,
}
RULES: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "text, with commas between several",
}
