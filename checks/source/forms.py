"""Which of a model's files hold its weights: safetensors where there are some, else one GGUF file, else
pickles where they are allowed.

Knows names and sizes alone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from checks.finding import Finding, Refused, size

SINGLE = "model.safetensors"
GGUF = ".gguf"
PICKLE = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin(\.index\.json)?")
SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
BESIDE = ("mmproj", "imatrix")  # how files begin that go with a model, and are none
ENDINGS = (".safetensors", GGUF, ".bin")


@dataclass(frozen=True, slots=True)
class Forms:
    """pickle  whether pickles may be read
    gguf    the GGUF file to take, or enough of its name; empty: where there is nothing better
    """

    pickle: bool = False
    gguf: str = ""


SAFE = Forms()


def holds_weights(name: str) -> bool:
    return name.endswith(ENDINGS)


def weights_of(sizes: Mapping[str, int], index: Mapping[str, Any] | None, forms: Forms) -> set[str]:
    """Of files with so many bytes, those to load weights from; `index` says which safetensors go together.

    Raises Refused where there are GGUF files, and it is not clear which.
    """
    if forms.gguf:
        return {chosen(sizes, forms.gguf)}
    if index:
        return set(index["weight_map"].values())
    if SINGLE in sizes:
        return {SINGLE}
    if models(sizes):
        return {chosen(sizes, "")}
    return {name for name in sizes if forms.pickle and PICKLE.fullmatch(name)}


def chosen(sizes: Mapping[str, int], asked: str) -> str:
    """The GGUF file of that name, or the only one whose name has it within. Raises Refused."""
    every = models(sizes)
    if asked in every:
        return whole(asked, sizes)
    found = [name for name in every if asked.lower() in name.lower()]
    if len(found) == 1:
        return whole(found[0], sizes)
    need = f"GGUF_FILE = {asked!r}" if asked else "a GGUF file"
    told = ", ".join(f"{name} ({size(sizes[name])})" for name in found or every) or "none"
    raise Refused(Finding("weights", need, told, False, mend(found or every)))


def models(names: Iterable[str]) -> list[str]:
    """The GGUF files that are models."""
    return sorted(
        name for name in names if name.endswith(GGUF) and not PurePath(name).name.startswith(BESIDE)
    )


def whole(name: str, sizes: Mapping[str, int]) -> str:
    """Raise Refused for a part of a model."""
    if not SPLIT.search(name):
        return name
    others = [other for other in models(sizes) if not SPLIT.search(other)]
    raise Refused(Finding("weights", name, "a part of a GGUF file in several", False, mend(others)))


def mend(names: list[str]) -> str:
    if not names:
        return "choose a model with safetensors, or with a GGUF file in one piece"
    return f'GGUF_FILE = "{names[0]}", or another of them'
