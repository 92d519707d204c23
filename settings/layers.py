"""Where settings come from: config.py, .env, the environment. Each is a Layer of names and raw values."""

import ipaddress
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from settings.aliases import ALIASES
from settings.elsewhere import ELSEWHERE
from settings.fields import KINDS, BadSetting

FLAGS = "flags"
KNOWN = frozenset({*KINDS, *ALIASES, *ELSEWHERE})


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place, by name. A value is text, or what Python made of config.py."""

    place: str
    values: Mapping[str, Any]

    def spell(self, name: str) -> str:
        """The name as it is written in this place."""
        return flag(name) if self.place == FLAGS else name


def flag(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


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

    return Layer(path.name, filled(dotenv_values(path)))


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """What the environment says about settings; everything else in it is none of our business.

    Containers set HOSTNAME to the machine's name: it counts only where it is an address.
    """
    ours = {name: value for name, value in environment.items() if name in KNOWN}
    if not is_address(ours.get("HOSTNAME", "")):
        ours.pop("HOSTNAME", None)
    return Layer("environment", filled(ours))


def filled(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
