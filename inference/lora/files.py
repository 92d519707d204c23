"""The two files of an adapter's folder: the config, and safetensors whose header is read before any value.

Pickled weights and links out of the folder are refused. Knows files and shapes; not the model.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inference.errors import error_line, short
from inference.lora.config import refusal
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from inference.lora.keys import MAX_KEY_CHARS

PICKLED_FILES = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth")
MAX_HEADER_BYTES = 16_000_000
LENGTH_BYTES = 8  # little-endian length of the header, at the start of the file
DTYPES = ("F32", "F16", "BF16")

Shape = tuple[int, ...]


def check_files(folder: Path) -> None:
    """Raise BadRequest unless both files are regular files of the folder."""
    if not (folder / ADAPTER_WEIGHTS).exists():
        pickled = next((name for name in PICKLED_FILES if (folder / name).exists()), "")
        if pickled:
            raise refusal(f"has {pickled}, which can run code: save it with safe_serialization=True")
        raise refusal(f"has no {ADAPTER_WEIGHTS}")
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        path = (folder / name).resolve()
        if not path.is_file():
            raise refusal(f"has no {name} that is a file")
        if not any(path.is_relative_to(root) for root in roots_of(folder.resolve())):
            raise refusal(f"has a {name} that is a link out of its folder")


def roots_of(folder: Path) -> list[Path]:
    """The folder and, in a snapshot of the Hub's cache, the folder that its links point into."""
    return [folder, folder.parent.parent / "blobs"] if folder.parent.name == "snapshots" else [folder]


def read_shapes(folder: Path) -> Mapping[str, Shape]:
    """The shape of each tensor, from the header alone. Raises BadRequest for damage and other dtypes."""
    path, shapes = folder / ADAPTER_WEIGHTS, {}
    try:
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if header_bytes > MAX_HEADER_BYTES:
            raise refusal(f"has a header of {header_bytes} bytes, at most {MAX_HEADER_BYTES} are read")
        # As numpy: torch maps the file to write, and fails for more bytes than there are of memory.
        with safe_open(path, "np") as tensors:
            for key in sorted(tensors.keys()):
                entry = tensors.get_slice(key)
                shapes[key] = tuple(entry.get_shape())
                check_dtype(key, entry.get_dtype())
    except (OSError, SafetensorError, ValueError) as error:
        raise refusal(f"has weights that cannot be read: {error_line(error)}") from None
    if not shapes:
        raise refusal(f"has no weights in {ADAPTER_WEIGHTS}")
    return shapes


def check_dtype(key: str, dtype: str) -> None:
    """Raise BadRequest for a tensor whose dtype, as safetensors names it, is not read."""
    if dtype not in DTYPES:
        raise refusal(f"has {short(key, MAX_KEY_CHARS)[1:-1]} in {dtype}: it must be in {', '.join(DTYPES)}")


class TensorFile:
    """Reads tensors of the weights file, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._file = safe_open(folder / ADAPTER_WEIGHTS, "pt")

    def read(self, key: str) -> Tensor:
        """The tensor, float32. Raises BadRequest for values that are not finite."""
        values: Tensor = self._file.get_tensor(key).to(torch.float32)
        if not bool(values.isfinite().all()):
            raise refusal(f"has NaN or infinite values in {key}")
        return values
