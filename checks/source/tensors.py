"""What files of weights hold, as their headers tell: each weight's name, shape and dtype.

Knows the layout of a safetensors file: eight bytes say how long its header is, a JSON object that says where
each weight lies (https://huggingface.co/docs/safetensors). Reads nothing itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inference import foreign

LENGTH = 8  # bytes that say how long the header is
LONGEST = 100_000_000  # bytes of one, as the library that writes them has it
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
    "BOOL": torch.bool,
}


class Unread(Exception):
    """A header that cannot be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Headers:
    """What all files of a model hold.

    tensors  on torch's meta device; None where not all of them could be read
    unread   why not
    damaged  files that are not as long as their headers say
    """

    tensors: Mapping[str, Tensor] | None = None
    unread: str = ""
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """What one file holds; `end` is how long it must be."""

    tensors: Mapping[str, Tensor]
    end: int


def length(start: bytes) -> int:
    """Of the header, from the file's first bytes. Raises Unread."""
    size = int.from_bytes(start, "little")
    if len(start) < LENGTH or not 2 <= size <= LONGEST:
        raise Unread("a file of weights that does not begin as safetensors do")
    return size


def parsed(header: bytes) -> Header:
    """Raises Unread."""
    try:
        told = foreign.parsed(header)
        entries = {name: entry for name, entry in told.items() if name != "__metadata__"}
        tensors = {name: tensor(entry) for name, entry in entries.items()}
        values = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise Unread(f"a header that is none of safetensors: {error}") from error
    return Header(tensors, LENGTH + len(header) + values)


def tensor(entry: Mapping[str, Any]) -> Tensor:
    """Raises KeyError for a dtype that is none of ours."""
    return torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]], device="meta")


def dtype_in(tensors: Mapping[str, Tensor] | None) -> str:
    """The dtype that most of the files' values are in; empty where they are not known."""
    values: dict[str, int] = {}
    for tensor in (tensors or {}).values():
        name = str(tensor.dtype).removeprefix("torch.")
        values[name] = values.get(name, 0) + tensor.numel()
    return max(values, key=values.__getitem__, default="")
