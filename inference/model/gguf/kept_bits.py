"""Which tensors of a GGUF file are served with the bits that they have, and the memory that this saves.

Knows headers and the formats of native matrices; reads no tensor data.
"""

import logging
import math
from collections.abc import Collection, Mapping, Sequence

import torch

from inference.model.load.gguf.file.header import GgufHeader, GgufTensor
from inference.model.load.gguf.tensors.processors import has_processor
from inference.model.quantization.find_weights import MATRIX, STACK
from inference.model.quantization.schemes import BIAS, NONE, matrix_bytes
from inference.native.build import NativeUnavailable
from inference.native.cpu_levels import multiplies_bfloat16
from inference.native.packed_matrix import NATIVE_DTYPES, ensure_library
from inference.native.structs import NativeDtype

F16 = 1  # a ggml type (ggml/include/ggml.h), as the keys below
PACKED_DTYPES: Mapping[int, NativeDtype] = {
    F16: NativeDtype.F16,
    2: NativeDtype.Q4_0,
    3: NativeDtype.Q4_1,
    6: NativeDtype.Q5_0,
    7: NativeDtype.Q5_1,
    8: NativeDtype.Q8_0,
    10: NativeDtype.Q2_K,
    11: NativeDtype.Q3_K,
    12: NativeDtype.Q4_K,
    13: NativeDtype.Q5_K,
    14: NativeDtype.Q6_K,
    20: NativeDtype.IQ4_NL,
    23: NativeDtype.IQ4_XS,
    39: NativeDtype.MXFP4,
}
# The quantized formats without native products, which gguf-py dequantizes.
DEQUANTIZED: Mapping[int, str] = {
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    21: "IQ3_S",
    22: "IQ2_S",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    40: "NVFP4",
}

log = logging.getLogger(__name__)


def may_keep_bits(device: str, quantize: str, num_shard: int, layer_devices: Sequence[str]) -> bool:
    """Whether the settings let a model keep the bits of its file: one process, on the CPU, as stored."""
    return device == "cpu" and quantize == NONE and num_shard == 1 and not layer_devices


def keeps_bits(header: GgufHeader, dtype: torch.dtype) -> bool:
    """Whether a model computed in `dtype` on the CPU keeps the bits of its matrices.

    It does not if transformers has no tensor processor for it, or there is no native library.
    """
    supported = (
        dtype in NATIVE_DTYPES
        and has_processor(header.architecture)
        and any(is_packable(tensor, dtype) for tensor in header.tensors or ())
    )
    return supported and has_library()


def has_library() -> bool:
    try:
        ensure_library()
    except NativeUnavailable as reason:
        log.info("the GGUF file is dequantized: %s", reason)
        return False
    return True


def is_packable(tensor: GgufTensor, dtype: torch.dtype) -> bool:
    is_matrix = len(tensor.shape) in (MATRIX, STACK) and tensor.ggml_type in PACKED_DTYPES
    return is_matrix and (tensor.ggml_type != F16 or keeps_float16(dtype))


def keeps_float16(dtype: torch.dtype) -> bool:
    """Whether matrices of float16 stay so in a model computed in `dtype`.

    A processor that multiplies bfloat16 is about twice as fast with matrices rounded to it, in a batch.
    """
    return dtype is torch.float32 or not multiplies_bfloat16()


def dequantized_formats(header: GgufHeader) -> str:
    """The names of the formats that lose their bits where others keep them; empty if there are none."""
    kinds = {DEQUANTIZED.get(tensor.ggml_type, "") for tensor in header.tensors or ()}
    return ", ".join(sorted(kinds - {""}))


def bytes_saved(header: GgufHeader, dtype: torch.dtype) -> int:
    """Bytes by which the packed matrices are smaller than their values in `dtype`; 0 if none is packed."""
    if not keeps_bits(header, dtype):
        return 0
    names = {tensor.name for tensor in header.tensors or ()}
    matrices = (tensor for tensor in header.tensors or () if is_packable(tensor, dtype))
    return sum(
        math.prod(tensor.shape) * dtype.itemsize - packed_bytes(tensor, has_bias(tensor, names))
        for tensor in matrices
    )


def has_bias(tensor: GgufTensor, names: Collection[str]) -> bool:
    """Whether the file has a bias of a matrix; the biases of experts are not packed with them."""
    return len(tensor.shape) == MATRIX and f"{tensor.name.removesuffix('.weight')}.bias" in names


def packed_bytes(tensor: GgufTensor, has_bias: bool) -> int:
    """Bytes of a tensor's packed matrices, with their own copy of a bias."""
    inputs, outputs, *stacked = tensor.shape
    size = math.prod(stacked) * matrix_bytes(PACKED_DTYPES[tensor.ggml_type], outputs, inputs)
    return size + has_bias * BIAS["cpu"] * outputs
