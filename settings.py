"""The settings, typed and checked: config.py's values, overridden by .env, the environment and flags.

Knows each setting's type and limits; its value and what it means stand in config.py. Only main.py asks.
"""

import difflib
import runpy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

ALIASES = {"HF_TOKEN": "HUGGINGFACE_ACCESS_TOKEN"}
SECRETS = ("HUGGINGFACE_ACCESS_TOKEN", "API_KEYS")


class BadSetting(Exception):
    """A setting that is unknown, or whose value breaks a rule; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Limits:
    low: float
    high: float = float("inf")


Natural = Annotated[int, Limits(0)]
Positive = Annotated[int, Limits(1)]
Amount = Annotated[float, Limits(0)]


@dataclass(frozen=True, slots=True)
class Settings:
    """config.py's names in small letters."""

    model_name: str
    model_revision: str
    served_names: tuple[str, ...]
    huggingface_access_token: str = field(repr=False)
    trust_remote_code: bool
    offline: bool
    cache_dir: str
    host: str
    port: Annotated[int, Limits(0, 65535)]
    api_keys: tuple[str, ...] = field(repr=False)
    cors_origins: tuple[str, ...]
    max_body_mb: Annotated[float, Limits(0.001)]
    request_timeout: Amount
    drain_seconds: Amount
    stream_format: Literal["auto", "ndjson", "sse"]
    log_level: Literal["debug", "info", "warning", "error"]
    default_max_tokens: Natural
    default_temperature: Amount
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    context: Natural
    max_sequences: Positive
    kv_memory_gb: Amount
    max_batch_tokens: Positive
    max_queued_tokens: Positive
    threads: Natural


NAMES = tuple(item.name.upper() for item in fields(Settings))
KINDS: Mapping[str, Any] = {
    name.upper(): kind for name, kind in get_type_hints(Settings, include_extras=True).items()
}


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place, by setting name. A value is text, or what Python made of config.py."""

    place: str
    values: Mapping[str, Any]


def resolve(layers: Iterable[Layer]) -> Settings:
    """Check every layer; the last one that has a setting wins. Raises BadSetting."""
    values: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if name not in KINDS:
                raise BadSetting(f"{layer.place}: {unknown(name, NAMES, 'setting')}")
            values[name] = checked(name, value, layer.place)
    if missing := [name for name in NAMES if name not in values]:
        raise BadSetting(f"config.py: {', '.join(missing)} missing; write {missing[0]} = … back into it")
    return Settings(**{name.lower(): value for name, value in values.items()})


def unknown(name: str, known: Iterable[str], noun: str) -> str:
    """'X is not a setting', and the nearest name that is."""
    by_shape = {shape(other): other for other in known}
    near = difflib.get_close_matches(shape(name), by_shape, n=1, cutoff=0.5)
    return f"{name} is not a {noun}" + (f"; did you mean {by_shape[near[0]]}?" if near else "")


def shape(name: str) -> str:
    return name.strip("-_").replace("-", "_").lower()


# Layers ------------------------------------------------------------------------------------------------


def config_layer(path: Path) -> Layer:
    """The names that config.py sets. Raises BadSetting where it is not Python."""
    try:
        names = runpy.run_path(str(path))
    except SyntaxError as error:
        raise BadSetting(f"{path.name}, line {error.lineno}: {error.msg}") from None
    except NameError as error:
        raise BadSetting(f"{path.name}: {error}; put text in quotes, and write True or False") from None
    return Layer(path.name, {name: value for name, value in names.items() if not name.startswith("_")})


def file_layer(path: Path) -> Layer:
    """The names that .env sets; empty values count as not set. No file, no names."""
    if not path.exists():
        return Layer(path.name, {})
    from dotenv import dotenv_values  # only where there is a file, so that --help needs no package

    return Layer(path.name, renamed(dotenv_values(path)))


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """What the environment says about our settings; everything else in it is none of our business."""
    ours = {name: value for name, value in environment.items() if name in KINDS or name in ALIASES}
    return Layer("environment", renamed(ours))


def renamed(values: Mapping[str, str | None]) -> dict[str, str]:
    """Aliases by their setting's name, unless that is set itself; empty values left out."""
    given = {name: value for name, value in values.items() if value}
    aliased = {ALIASES[name]: value for name, value in given.items() if name in ALIASES}
    return aliased | {name: value for name, value in given.items() if name not in ALIASES}


# Values ------------------------------------------------------------------------------------------------


def checked(name: str, value: Any, place: str) -> Any:
    """The value in its setting's type. Raises BadSetting with the rule it breaks."""
    kind = KINDS[name]
    try:
        return read(kind, value)
    except ValueError:
        given = "what it is set to" if name in SECRETS else repr(value)
        raise BadSetting(f"{place}: {name} must be {rule(kind)}, not {given}") from None


def read(kind: Any, value: Any) -> Any:
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
    return {"true": True, "false": False}[member(("true", "false"), str(value).lower())]


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
