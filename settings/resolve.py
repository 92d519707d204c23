"""Layers of names and raw values become Settings: the last layer that has one wins. Only main.py asks."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from settings.aliases import ALIASES, Alias
from settings.elsewhere import ELSEWHERE
from settings.fields import KINDS, NAMES, SECRETS, BadSetting, Settings
from settings.kinds import read, rule
from settings.layers import Layer
from settings.rules import check


def resolve(layers: Iterable[Layer]) -> Settings:
    """Check every layer, and what the outcome says together. Raises BadSetting."""
    values: dict[str, Any] = {}
    for layer in layers:
        values |= settled(layer)
    if missing := [name for name in NAMES if name not in values]:
        raise BadSetting(f"config.py: {', '.join(missing)} missing; write {missing[0]} = … back into it")
    settings = Settings(**{name.lower(): value for name, value in values.items()})
    check(settings)
    return settings


def warnings(layers: Iterable[Layer]) -> Iterator[str]:
    """What the layers ask for that has no effect here. For layers that `resolve` has taken."""
    for layer in layers:
        for name, value in layer.values.items():
            if name in ELSEWHERE and ELSEWHERE[name].warns(str(value)):
                yield f"{layer.place}: {layer.spell(name)} has no effect: {ELSEWHERE[name].idle}"


def settled(layer: Layer) -> dict[str, Any]:
    """The layer's values by setting, in their types. Raises BadSetting."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, alias in sorted(ours(layer), key=lambda item: item[1].yields):
        first = names.setdefault(alias.setting, name)
        if first == name:
            values[alias.setting] = checked(name, alias, layer)
        elif not alias.yields:
            both = f"{layer.spell(first)} and {layer.spell(name)}"
            raise BadSetting(f"{layer.place}: {both} are both set, and mean the same: leave one out")
    return values


def ours(layer: Layer) -> Iterator[tuple[str, Alias]]:
    """The names in the layer, and what each means here. Raises BadSetting for those that mean nothing."""
    for name, value in layer.values.items():
        if name in ELSEWHERE and ELSEWHERE[name].refuses(str(value)):
            told = f"{layer.spell(name)} {value}: {ELSEWHERE[name].refused}"
            raise BadSetting(f"{layer.place}: {told}")
        if name in ALIASES or name in KINDS:
            yield name, ALIASES.get(name, Alias(name))
        elif name not in ELSEWHERE:
            raise BadSetting(f"{layer.place}: {unknown(name, NAMES, 'setting')}")


def checked(name: str, alias: Alias, layer: Layer) -> Any:
    """The value in its setting's type. Raises BadSetting with the rule it breaks."""
    kind, value = KINDS[alias.setting], layer.values[name]
    try:
        return read(kind, alias.convert(value))
    except ValueError:
        given = "what it is set to" if alias.setting in SECRETS else repr(value)
        told = f"must be {alias.rule or rule(kind)}, not {given}"
        raise BadSetting(f"{layer.place}: {layer.spell(name)} {told}") from None


def unknown(name: str, known: Iterable[str], noun: str) -> str:
    """'X is not a setting', and the nearest name that is."""
    by_shape = {shape(other): other for other in known}
    near = difflib.get_close_matches(shape(name), by_shape, n=1, cutoff=0.5)
    return f"{name} is not a {noun}" + (f"; did you mean {by_shape[near[0]]}?" if near else "")


def shape(name: str) -> str:
    return name.strip("-_").replace("-", "_").lower()
