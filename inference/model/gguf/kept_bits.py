"""Which tensors of a GGUF file are served with the bits that they have, and the memory that this saves.

Knows headers and the formats of native matrices; reads no tensor data.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch

from inference.model.load.gguf.header import GgufHeader, GgufTensor
from inference.model.quantization.schemes import NONE, matrix_bytes
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import NATIVE_DTYPES, ensure_library
from inference.native.structs import NativeDtype

# By ggml type (ggml/include/ggml.h).
PACKED_DTYPES: Mapping[int, NativeDtype] = {
    2: NativeDtype.Q4_0,
    8: NativeDtype.Q8_0,
    12: NativeDtype.Q4_K,
    14: NativeDtype.Q6_K,
}
MATRIX = 2  # dimensions

log = logging.getLogger(__name__)


def processors() -> Any:
    """transformers' module of tensor processors, imported only for a GGUF file: that takes 0.3 s."""
    return import_module("transformers.modeling_gguf_pytorch_utils")


def may_keep_bits(device: str, quantize: str, num_shard: int, layer_devices: Sequence[str]) -> bool:
    """Whether the settings let a model keep the bits of its file: one process, on the CPU, as stored."""
    return device == "cpu" and quantize == NONE and num_shard == 1 and not layer_devices


def keeps_bits(header: GgufHeader, dtype: torch.dtype) -> bool:
    """Whether a model computed in `dtype` on the CPU keeps the bits of its quantized matrices.

    It does not if the file has stacked matrices (experts), or there is no native library.
    """
    tensors = header.tensors or ()
    supported = (
        dtype in NATIVE_DTYPES
        and header.architecture in processors().GGUF_SUPPORTED_ARCHITECTURES
        and all(len(tensor.shape) <= MATRIX for tensor in tensors)
        and any(map(is_packable, tensors))
    )
    return supported and has_library()


def has_library() -> bool:
    try:
        ensure_library()
    except NativeUnavailable as reason:
        log.info("the GGUF file is dequantized: %s", reason)
        return False
    return True


def is_packable(tensor: GgufTensor) -> bool:
    return len(tensor.shape) == MATRIX and tensor.ggml_type in PACKED_DTYPES


def bytes_saved(header: GgufHeader, dtype: torch.dtype) -> int:
    """Bytes by which the packed matrices are smaller than their values in `dtype`; 0 if none is packed."""
    if not keeps_bits(header, dtype):
        return 0
    matrices = (tensor for tensor in header.tensors or () if is_packable(tensor))
    return sum(
        math.prod(tensor.shape) * dtype.itemsize
        - matrix_bytes(PACKED_DTYPES[tensor.ggml_type], tensor.shape[1], tensor.shape[0])
        for tensor in matrices
    )
