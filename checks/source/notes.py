"""The small JSON files that a verdict reads of a model: its config.json, and the index of its weights.

What is none, or says nothing that could be used, is refused.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checks.finding import Refused
from checks.source.config import checked
from checks.source.glance import CONFIG
from checks.source.refusals import nothing_found
from inference import foreign
from inference.model.gguf.parts import GGUF


def config_in(folder: Path, name: str, wanted: Iterable[str]) -> dict[str, Any]:
    """What config.json says; nothing where the model is a GGUF file, which says it itself. Raises Refused."""
    if any(file.endswith(GGUF) for file in wanted):
        return {}
    if not (folder / CONFIG).is_file():
        raise Refused(nothing_found(name, "no config.json among its files"))
    return checked(parsed(folder / CONFIG, name), name)


def in_index(path: Path, name: str) -> set[str]:
    """The files that an index of weights names. Raises Refused."""
    files = parsed(path, name).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise Refused(nothing_found(name, f"{path.name} does not say which file each weight is in"))
    return set(files.values())


def parsed(path: Path, name: str) -> dict[str, Any]:
    try:
        return foreign.object_in(path, numbered)
    except (OSError, ValueError) as error:
        raise Refused(nothing_found(name, str(error))) from error


def numbered(value: dict[str, Any]) -> Any:
    """What transformers writes of a number that JSON has none for: {"__float__": "Infinity"}."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value
