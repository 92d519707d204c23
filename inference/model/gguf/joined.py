"""A model in several GGUF files, shown to transformers as one, for it opens one only.

Whoever opens the first meanwhile, by numpy's memmap, is given the head of a file that has all tensors; and
behind it each file as it is on the disk, one after the other. Nothing is copied but that head.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from inference.model.gguf.head import BEGUN, Head, NoGguf, aligned, begun, head
from inference.model.gguf.parts import paths, together

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Joined(np.ndarray):
    """The bytes of the head. A slice that begins behind them is one of the file that lies there."""

    files: Sequence[Bytes]
    places: Sequence[int]  # where they begin

    def __getitem__(self, wanted: Any) -> Any:
        if not isinstance(wanted, slice) or wanted.start is None or wanted.start < len(self):
            return self.view(np.ndarray)[wanted]
        number = bisect_right(self.places, wanted.start) - 1
        place = self.places[number]
        return self.files[number][wanted.start - place : wanted.stop - place]


@contextmanager
def joined(first: Path) -> Iterator[None]:
    """Meanwhile the file is one with all tensors of the model. Raises NoGguf where the files are not one
    model, or where nobody opened it so."""
    files = paths(first)
    if len(files) == 1:
        yield
        return
    view, plain, seen = join(files), np.memmap, []

    def mapped(name: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(name, str | Path) or not first.samefile(name):
            return plain(name, *args, **options)
        seen.append(name)
        return view

    np.memmap = mapped  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        np.memmap = plain  # type: ignore[misc]
    if not seen:
        raise NoGguf(f"{first.name}, in several files, which this version of transformers does not read")


def join(files: Sequence[Path]) -> Joined:
    """Raises NoGguf, and OSError for a file that is not there."""
    mapped = [np.memmap(file, dtype=np.uint8, mode="r") for file in files]
    heads = [head(partial(part_of, bytes_), len(bytes_), len(bytes_)) for bytes_ in mapped]
    together([file.name for file in files], [len(bytes_) for bytes_ in mapped], heads)
    begin = settings_of(mapped[0], heads)
    table = sum(len(tensor.written()) for made in heads for tensor in made.tensors or ())
    values = aligned(len(begin) + table, heads[0])
    places = list(accumulate((aligned(len(bytes_), heads[0]) for bytes_ in mapped), initial=values))
    rows = [
        tensor._replace(place=place - values + made.values + tensor.place).written()
        for made, place in zip(heads, places, strict=False)
        for tensor in made.tensors or ()
    ]
    view = np.frombuffer((begin + b"".join(rows)).ljust(values, b"\0"), dtype=np.uint8).view(Joined)
    view.files, view.places = mapped, places[:-1]
    return view


def settings_of(first: Bytes, heads: Sequence[Head]) -> bytes:
    """A head as far as its table, with as many tensors as there are in all."""
    told = first[: heads[0].table].tobytes()
    (settings,) = struct.unpack_from("<Q", told, BEGUN - 8)
    return begun(sum(made.count for made in heads), settings) + told[BEGUN:]


def part_of(file: Bytes, start: int, stop: int) -> bytes:
    return file[start:stop].tobytes()
