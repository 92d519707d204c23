"""What files of weights hold, as their headers tell: each weight's name, shape and dtype.

Knows the layout of a safetensors file: eight bytes say how long its header is, a JSON object that says where
each weight lies (https://huggingface.co/docs/safetensors). Reads nothing itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inference import foreign
from inference.errors import named, short

LENGTH = 8  # bytes that say how long the header is
LONGEST = 100_000_000  # bytes of one, as the library that writes them has it
POINTER = b"version "  # as the note begins that git-lfs keeps in a file's place
DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "BOOL": torch.bool,
}


class Unread(Exception):
    """A header that cannot be had; the text says why."""


class Malformed(Exception):
    """A file that is no safetensors, as no loader would take it; the text says why, `file` which."""

    file = ""


@dataclass(frozen=True, slots=True)
class Headers:
    """What all files of a model hold.

    tensors    on torch's meta device; None where not all of them could be read
    unread     why not
    malformed  why a file is no safetensors; `damaged` has its name
    damaged    files that are none, or not as long as their headers say
    """

    tensors: Mapping[str, Tensor] | None = None
    unread: str = ""
    malformed: str = ""
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """What one file holds; `end` is how long it must be."""

    tensors: Mapping[str, Tensor]
    end: int


def length(start: bytes) -> int:
    """Of the header, from the file's first bytes. Raises Malformed."""
    if start.startswith(POINTER):
        raise Malformed("what git keeps in its place: git lfs pull")
    size = int.from_bytes(start, "little")
    if len(start) < LENGTH or not 2 <= size <= LONGEST:
        raise Malformed("it does not begin as safetensors do")
    return size


def parsed(header: bytes) -> Header:
    """Raises Malformed, and Unread for values of a kind that is not known here."""
    try:
        entries = foreign.parsed(header)
        metadata = entries.pop("__metadata__", None) or {}
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("metadata that is no text")
        tensors = {name: tensor(entry) for name, entry in entries.items()}
        values = end_of((*entry["data_offsets"], tensors[name].nbytes) for name, entry in entries.items())
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise Malformed(f"a header that is none of safetensors: {named(error)}") from error
    return Header(tensors, LENGTH + len(header) + values)


def tensor(entry: Mapping[str, Any]) -> Tensor:
    """Raises Unread for a dtype that is none of ours."""
    dtype, shape = entry["dtype"], entry["shape"]
    if isinstance(dtype, str) and dtype not in DTYPES:
        raise Unread(f"values of the kind {short(dtype)}")
    if not isinstance(shape, list):
        raise ValueError(f"{short(shape)} for a shape")
    return torch.empty(shape, dtype=DTYPES[dtype], device="meta")


def end_of(places: Iterable[tuple[int, int, int]]) -> int:
    """Where the values end, of tensors from, to, and of so many bytes: each begins where one before ends.

    Raises ValueError where one does not.
    """
    end = 0
    for start, stop, num_bytes in sorted(places):
        if (start, stop) != (end, end + num_bytes):
            raise ValueError(f"{num_bytes} bytes of values from {start} to {stop}, behind those up to {end}")
        end += num_bytes
    return end


def dtype_in(tensors: Mapping[str, Tensor] | None) -> str:
    """The dtype that most of the files' values are in; empty where they are not known."""
    values: dict[str, int] = {}
    for tensor in (tensors or {}).values():
        name = str(tensor.dtype).removeprefix("torch.")
        values[name] = values.get(name, 0) + tensor.numel()
    return max(values, key=values.__getitem__, default="")
