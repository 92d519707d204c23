"""Loads safetensors whose matrices are float16, and keeps their bits in a model computed in bfloat16.

Only for processors without products of bfloat16, where this is exact and costs no time; others round the
matrices to bfloat16.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inference.model.gguf.blocks import Blocks
from inference.model.gguf.kept_bits import has_library, keeps_float16
from inference.model.gguf.replace_blocks import load_with_blocks
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG
from inference.model.load.formats import open_safetensors, read_safetensors, safetensors_files
from inference.model.load.generation_config import read_generation_config
from inference.model.quantization.find_weights import MATRIX, WeightRole, find_weights
from inference.native.structs import NativeDtype

FLOAT16 = "F16"  # a dtype in the header of a file


def has_float16_weights(source: Path) -> bool:
    """Whether the matrices of the first file are float16; False for a damaged file, which loading refuses."""
    path = min(safetensors_files(source), default=None)
    if path is None:
        return False
    try:
        with safe_open(path, "pt") as file:
            slices = [file.get_slice(name) for name in file.offset_keys()]
            return {each.get_dtype() for each in slices if len(each.get_shape()) == MATRIX} == {FLOAT16}
    except (OSError, SafetensorError):
        return False


def open_keeping_float16(
    auto_class: Any, source: Path, *, config: Any, dtype: torch.dtype, **options: Any
) -> tuple[Any, set[str]]:
    """Load the model onto the CPU, and the names of its missing weights.

    A model in another dtype, with code of its own or with quantized weights is loaded as others are.
    """
    is_plain = not options.get("trust_remote_code") and getattr(config, QUANTIZATION_CONFIG, None) is None
    if dtype is not torch.bfloat16 or not is_plain or not keeps_float16(dtype) or not has_library():
        return open_safetensors(auto_class, source, config=config, dtype=dtype, **options)
    with torch.device("meta"):
        skeleton = auto_class.from_config(config, dtype=dtype)
    tensors = read_safetensors(source)
    blocks = {name: blocks_of(tensors.pop(name)) for name in kept_names(skeleton, tensors)}
    return load_with_blocks(skeleton, config, dtype, tensors, blocks, read_generation_config(source))


def kept_names(skeleton: Any, tensors: dict[str, Tensor]) -> list[str]:
    """The matrices of the model that the files have under the same name, in the same layout."""
    packable = {
        id(weight.weight)
        for weight in find_weights(skeleton, "meta")
        if not weight.is_transposed and weight.role is not WeightRole.EXPERTS
    }
    return [
        name
        for name, weight in skeleton.named_parameters()
        if id(weight) in packable and name in tensors and tensors[name].shape == weight.shape
    ]


def blocks_of(weight: Tensor) -> Blocks:
    rows = weight.to(torch.float16).view(torch.uint8).numpy()
    return Blocks(rows, torch.arange(weight.shape[0]), weight.shape[1], NativeDtype.F16)
