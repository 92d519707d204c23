"""A model in several GGUF files, as llama.cpp's gguf-split makes them: which they are, and whether they are
of one model.

Knows how such files are called and what their heads say of it. The first has the settings of all.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from inference.model.gguf.head import Head, NoGguf

GGUF = ".gguf"
PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")  # counted from 1
NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"  # the number counted from 0


def parts(name: str) -> tuple[str, ...]:
    """The files of the model that the file is a part of, in order; that file alone where it is whole."""
    stem, count = split(name)
    return tuple(called(stem, number, count) for number in range(1, count + 1)) if count else (name,)


def first(name: str) -> str:
    stem, count = split(name)
    return called(stem, 1, count) if count else name


def split(name: str) -> tuple[str, int]:
    """What the names of all parts begin with, and how many they are; 0 where the file is none."""
    found = PART.fullmatch(name)
    stem, number, count = found.groups() if found else (name, "0", "0")
    return stem, int(count) if 0 < int(number) <= int(count) else 0


def called(stem: str, number: int, count: int) -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def paths(file: Path) -> list[Path]:
    return [file.with_name(name) for name in parts(file.name)]


def together(names: Sequence[str], sizes: Sequence[int], heads: Sequence[Head]) -> Head:
    """The first's head with the tensors of all, as far as they are known.

    Raises NoGguf for a file that is none of the model's, or is cut off, and names it.
    """
    for number, (name, size, head) in enumerate(zip(names, sizes, heads, strict=True)):
        if why := fault(head, size, number, len(names)):
            raise NoGguf(f"{name}, which {why}")
    count = sum(head.count for head in heads)
    if wrong := {head.numbers.get(TENSORS, count) for head in heads} - {count}:
        raise NoGguf(f"{listed(names)}, which have {count} tensors, of a model that has {wrong.pop()}")
    tables = [head.tensors for head in heads]
    known = None if None in tables else [tensor for table in tables for tensor in table or ()]
    return replace(heads[0], count=count, tensors=known)


def fault(head: Head, size: int, number: int, count: int) -> str:
    """What is wrong with a file that should be part `number` of `count`; empty for nothing."""
    if size < head.end:
        return f"is cut off: {size} bytes of {head.end}"
    found = told(head)
    return f"says that it is {said(*found)}" if found and found != (number, count) else ""


def told(head: Head) -> tuple[int, int] | None:
    """Which of how many files it is, as it says itself; None where that was not reached."""
    if COUNT in head.numbers:
        return head.numbers.get(NUMBER, 0), head.numbers[COUNT] or 1  # 0 where it was put together again
    return None if head.tensors is None else (0, 1)


def said(number: int, count: int) -> str:
    return f"part {number + 1} of {count}" if count > 1 else "a whole model"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
