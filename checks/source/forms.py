"""Which of a model's files hold its weights: safetensors where there are some, else one GGUF file or one in
parts, else pickles where they are allowed.

Knows names and sizes alone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from checks.finding import Finding, Refused, listed, size
from inference.model.gguf.parts import GGUF, first, parts

SINGLE = "model.safetensors"
PICKLE = re.compile(r"pytorch_model(-\d{5}-of-\d{5})?\.bin(\.index\.json)?")
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


def weights_of(sizes: Mapping[str, int], shards: set[str] | None, forms: Forms) -> set[str]:
    """Of files with so many bytes, those to load weights from; `shards`: those that an index names.

    Raises Refused where there are GGUF files, and it is not clear which.
    """
    if forms.gguf:
        return set(chosen(sizes, forms.gguf))
    if shards is not None:
        return shards
    if SINGLE in sizes:
        return {SINGLE}
    if models(sizes):
        return set(chosen(sizes, ""))
    return {name for name in sizes if forms.pickle and PICKLE.fullmatch(name)}


def chosen(sizes: Mapping[str, int], asked: str) -> tuple[str, ...]:
    """The parts of the GGUF file of that name, or the only one whose name has it within. Raises Refused."""
    every = models(sizes)
    if first(asked) in every:
        return whole(first(asked), sizes)
    found = [name for name in every if asked.lower() in name.lower()]
    if len(found) == 1:
        return whole(found[0], sizes)
    need = f"GGUF_FILE = {asked!r}" if asked else "a GGUF file"
    told = ", ".join(f"{name} ({size(room(name, sizes))})" for name in found or every) or "none"
    raise Refused(Finding("weights", need, told, False, mend(found or every)))


def models(names: Iterable[str]) -> list[str]:
    """The GGUF files that are models, of one in parts the first."""
    found = (name for name in names if name.endswith(GGUF) and not PurePath(name).name.startswith(BESIDE))
    return sorted({first(name) for name in found})


def room(name: str, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(part, 0) for part in parts(name))


def whole(name: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """All parts of the model. Raises Refused where one is missing."""
    every = parts(name)
    missing = [part for part in every if part not in sizes]
    if not missing:
        return every
    verb = "are" if len(missing) > 1 else "is"
    others = [other for other in models(sizes) if other != name]
    told = f"{listed(missing)} {verb} missing: fetch or copy what is, or {mend(others)}"
    raise Refused(Finding("weights", f"{len(every)} parts", f"{len(every) - len(missing)}", False, told))


def mend(names: list[str]) -> str:
    if not names:
        return "choose a model whose files are all there"
    return f'GGUF_FILE = "{names[0]}", or another of them'
