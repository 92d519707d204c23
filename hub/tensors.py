"""Parses the headers of safetensors files: the name, shape and dtype of each tensor.

Layout (https://huggingface.co/docs/safetensors): eight bytes with the length of the header, then the header,
a JSON object with the position of each tensor. weight_headers/ reads the bytes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inference import untrusted_json
from inference.errors import named_error, short

LENGTH_BYTES = 8  # little-endian length of the header
MAX_HEADER_BYTES = 100_000_000  # limit of the safetensors library
MAX_TENSORS = 100_000  # of one file; the largest models have a few thousand in each
LFS_POINTER = b"version "  # start of a git-lfs pointer file
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


class HeaderUnavailable(Exception):
    """A header cannot be read; the message says why."""


class MalformedHeader(Exception):
    """A file is not valid safetensors; the message says why, and `file` has its name."""

    file = ""


@dataclass(frozen=True, slots=True)
class WeightHeaders:
    """The headers of all safetensors files of a model.

    tensors             by name, on the meta device; None if not all headers could be read
    unavailable_reason  why headers could not be read; empty if they could
    malformed_reason    why the one file in `damaged_files` is not valid safetensors
    damaged_files       names of files that are malformed, or whose length differs from their header
    """

    tensors: Mapping[str, Tensor] | None = None
    unavailable_reason: str = ""
    malformed_reason: str = ""
    damaged_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightHeader:
    """The header of one file; `end` is the length in bytes that the file must have."""

    tensors: Mapping[str, Tensor]
    end: int


def parse_length(start: bytes) -> int:
    """The length of the header, from the file's first bytes. Raises MalformedHeader."""
    if start.startswith(LFS_POINTER):
        raise MalformedHeader("a git-lfs pointer instead of the weights: run git lfs pull")
    size = int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES or not 2 <= size <= MAX_HEADER_BYTES:
        raise MalformedHeader("it does not start like a safetensors file")
    return size


def parse_header(header: bytes) -> WeightHeader:
    """Parse the JSON of a header. Raises MalformedHeader, and HeaderUnavailable for an unknown dtype."""
    try:
        entries = untrusted_json.parse_json(header)
        metadata = entries.pop("__metadata__", None) or {}
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("metadata that is not text")
        if len(entries) > MAX_TENSORS:
            raise ValueError(f"{len(entries)} tensors, at most {MAX_TENSORS} are read")
        tensors = {name: parse_tensor(entry) for name, entry in entries.items()}
        data_bytes = check_extents(
            (*entry["data_offsets"], tensors[name].nbytes) for name, entry in entries.items()
        )
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise MalformedHeader(f"an invalid safetensors header: {named_error(error)}") from error
    return WeightHeader(tensors, LENGTH_BYTES + len(header) + data_bytes)


def parse_tensor(entry: Mapping[str, Any]) -> Tensor:
    """A tensor on the meta device for a header entry. Raises HeaderUnavailable for a dtype not in DTYPES."""
    dtype, shape = entry["dtype"], entry["shape"]
    if isinstance(dtype, str) and dtype not in DTYPES:
        raise HeaderUnavailable(f"an unknown dtype, {short(dtype)}")
    if not isinstance(shape, list):
        raise ValueError(f"{short(shape)} as a shape")
    return torch.empty(shape, dtype=DTYPES[dtype], device="meta")


def check_extents(extents: Iterable[tuple[int, int, int]]) -> int:
    """Check that the tensors lie in the file without gaps or overlaps. Returns the end of the last one.

    extents: (start, stop, bytes that dtype and shape need) of each tensor. Raises ValueError.
    """
    end = 0
    for start, stop, num_bytes in sorted(extents):
        if (start, stop) != (end, end + num_bytes):
            raise ValueError(
                f"{num_bytes} bytes of a tensor from {start} to {stop}, after the one that ends at {end}"
            )
        end += num_bytes
    return end


def most_common_dtype(tensors: Mapping[str, Tensor] | None) -> str:
    """The dtype of most elements of the tensors; empty if the tensors are unknown."""
    values: dict[str, int] = {}
    for tensor in (tensors or {}).values():
        name = str(tensor.dtype).removeprefix("torch.")
        values[name] = values.get(name, 0) + tensor.numel()
    return max(values, key=values.__getitem__, default="")
