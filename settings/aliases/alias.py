"""Rows of the tables of other servers' flags: a flag that means a setting, and one that this server lacks."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

OFF_VALUES = ("false", "0", "no", "off")
ON_VALUES = ("true", "1", "yes", "on")


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of `setting`.

    convert        converts a value of the alias to a value of the setting; raises ValueError
    rule           which values are valid, for messages; empty: the setting's own rule
    is_fallback    ignored if the same source sets the setting by another name
    overriding     values that count even then, and the other name is ignored
    is_switch      as a flag it may stand without a value, which means true
    takes_several  as a flag it takes all words up to the next flag
    unset          values that leave the setting as it is
    is_former      a deprecated former name of the setting
    former_values  deprecated former values of the setting
    also           another setting that the same value sets
    """

    setting: str
    convert: Callable[[Any], Any] = lambda value: value
    rule: str = ""
    is_fallback: bool = False
    overriding: Collection[str] = ()
    is_switch: bool = False
    takes_several: bool = False
    unset: Collection[str] = ()
    is_former: bool = False
    former_values: Collection[str] = ()
    also: "Alias | None" = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A setting of another server that this server does not have.

    no_effect_because  why its values have no effect; the text of the warning
    accepted           values that this server satisfies anyway; accepted without a warning
    accepts            whether a value is accepted like those, if that depends on more than its name
    refused_because    why all other values are refused, and what to do instead; empty: none is refused
    ignored            values that get a warning although refused_because is set
    is_switch          as a flag it may stand without a value, which means true
    takes_several      as a flag it takes all words up to the next flag
    """

    no_effect_because: str = ""
    accepted: tuple[str, ...] = ()
    refused_because: str = ""
    ignored: tuple[str, ...] = ()
    is_switch: bool = False
    takes_several: bool = False
    accepts: Callable[[str], bool] = lambda value: False

    def refuses(self, value: str) -> bool:
        return bool(self.refused_because) and value.lower() not in (*self.accepted, *self.ignored)

    def warns(self, value: str) -> bool:
        return not (value.lower() in self.accepted or self.accepts(value) or self.refuses(value))


def no_effect(
    because: str, names: str = "", *, switches: str = "", enabled: str = "", several: str = ""
) -> dict[str, Unsupported]:
    """Rows for flags without effect, each argument a list of names separated by spaces.

    names     take a value
    switches  take none; switched off they are accepted without a warning
    enabled   switches that are always on in this server: only switched off they get a warning
    several   take several values
    """
    return (
        {name: Unsupported(because) for name in names.split()}
        | {name: Unsupported(because, OFF_VALUES, is_switch=True) for name in switches.split()}
        | {name: Unsupported(because, ON_VALUES, is_switch=True) for name in enabled.split()}
        | {name: Unsupported(because, takes_several=True) for name in several.split()}
    )


def refused(
    because: str, names: str = "", *, switches: str = "", several: str = ""
) -> dict[str, Unsupported]:
    """Rows for flags that stop the start; a switch is accepted if it is switched off."""
    return (
        {name: Unsupported(refused_because=because) for name in names.split()}
        | {name: Unsupported("", OFF_VALUES, because, is_switch=True) for name in switches.split()}
        | {name: Unsupported(refused_because=because, takes_several=True) for name in several.split()}
    )
