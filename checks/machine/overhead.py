"""What serving takes besides a model and its tokens, as this machine has shown: kept in the user's cache, so
that each start predicts with what those before have seen.

A file of a few kB: for each set of versions and device, the last values of each constant. One that is damaged
is as good as none. Knows no models.
"""

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

from inference.foreign import parsed
from inference.native.prepared import ready
from inference.resident import resident

LAST, MACHINES = 9, 16  # values that are kept of each constant, and sets of constants
LARGEST = 1 << 20  # bytes of a file that is read; ours has a few thousand
Seen = dict[str, list[float]]
# The values that can be true; what else stands in the file is a damage.
LIMITS: Mapping[str, tuple[float, float]] = {
    "later": (0, 4e9),
    "cuda": (0, 8e9),
    "step": (0.1, 10),
}


@dataclass(frozen=True, slots=True)
class Overhead:
    """program  bytes of RAM: Python, the libraries and our own code, before any model
    own      of these, what this process has already, and of no file: it is not taken again
    ahead    what it has for weights to come (inference/native/prepared.py), and is not of the program
    later    bytes of RAM that come with any model: threads, and what products keep
    cuda     bytes on each GPU: what libraries take beside tensors
    step     what steps have taken, of what was predicted
    """

    program: int = 390_000_000
    own: int = 0
    ahead: int = 0
    later: int = 60_000_000
    cuda: int = 700_000_000
    step: float = 1.0

    @property
    def ram(self) -> int:
        return self.program + self.later


FIRST = Overhead()  # measured with torch 2.13 and transformers 5.23 on Linux; that of CUDA is a guess


def known(device: str, path: Path | None = None) -> Overhead:
    """With the program as it is now, and what was seen of the rest. device: "cpu" or "cuda"."""
    seen = read(path or kept()).get(key(device), {})
    typical = {name: median(values) for name, values in seen.items() if values}
    now = resident()
    return Overhead(
        program=now.all - ready(),
        own=now.own,
        ahead=ready(),
        later=int(typical.get("later", FIRST.later)),
        cuda=int(typical.get("cuda", FIRST.cuda)),
        step=typical.get("step", FIRST.step),
    )


def learn(device: str, values: Mapping[str, float], path: Path | None = None) -> None:
    """Keep these values, by the names in LIMITS; those that cannot be true, or kept, are not."""
    file = path or kept()
    machines = read(file)
    seen = machines.pop(key(device), {})
    for name, value in values.items():
        seen[name] = [*seen.get(name, []), *filter(lambda value: true(name, value), [value])][-LAST:]
    machines[key(device)] = seen  # behind the others: what is used least goes first
    write(file, dict(list(machines.items())[-MACHINES:]))


def key(device: str) -> str:
    """The versions and the device that the constants are of."""
    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else device
    python = ".".join(platform.python_version_tuple()[:2])
    versions = f"python {python} torch {torch.__version__} transformers {transformers.__version__}"
    return f"{platform.machine()} {versions} {name}"


def kept() -> Path:
    """The file. Below the temporary folder for a user who has no home."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        base = Path(tempfile.gettempdir())
    return base / "hearth" / "memory.json"


def read(path: Path) -> dict[str, Seen]:
    """What the file says that can be true; nothing where there is none, or it cannot be read."""
    try:
        found = parsed(text(path))
    except (OSError, ValueError):
        return {}
    machines = found.items() if isinstance(found, dict) else ()
    return {name: sound(seen) for name, seen in machines if isinstance(seen, dict)}


def text(path: Path) -> bytes:
    """Of an ordinary file, no large one: others are waited for, or never end. Raises OSError, ValueError."""
    if not path.is_file():
        raise ValueError("no file")
    with path.open("rb") as file:
        found = file.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise ValueError("too large")
    return found


def sound(seen: Mapping[str, Any]) -> Seen:
    lists = {name: seen.get(name) for name in LIMITS}
    return {
        name: [value for value in values if true(name, value)][-LAST:]
        for name, values in lists.items()
        if isinstance(values, list)
    }


def true(name: str, value: Any) -> bool:
    low, high = LIMITS[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and low <= value <= high


def write(path: Path, machines: Mapping[str, Seen]) -> None:
    """All of it or nothing: whoever reads meanwhile finds the old file. Not where nothing can be kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(machines, file, indent=1)
            os.replace(made, path)
        except OSError:
            os.unlink(made)
    except OSError:
        return
