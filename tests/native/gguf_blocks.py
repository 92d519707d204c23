"""Random blocks of each format of GGUF."""

import gguf
import numpy as np
import torch
from torch import Tensor

from inference.native.structs import NativeDtype

# float16 scales and minima in a block, and where they begin, from its end; other blocks begin with one.
NUM_SCALES = dict.fromkeys(
    (NativeDtype.Q4_1, NativeDtype.Q5_1, NativeDtype.Q2_K, NativeDtype.Q4_K, NativeDtype.Q5_K), 2
)
SCALES_AT = {NativeDtype.Q2_K: -4, NativeDtype.Q3_K: -2, NativeDtype.Q6_K: -2}


def blocks_of(dtype: NativeDtype, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Random blocks (outputs, bytes of a row) with finite scales, and their values by gguf-py."""
    ggml_type = gguf.GGMLQuantizationType[dtype.name]
    values, width = gguf.GGML_QUANT_SIZES[ggml_type]
    random = np.random.default_rng(7)
    blocks = random.integers(0, 256, (outputs, inputs // values, width), dtype=np.uint8)
    first = width + SCALES_AT.get(dtype, -width)
    if dtype is NativeDtype.MXFP4:
        scales = random.integers(112, 128, (outputs, inputs // values, 1), dtype=np.uint8)
    else:
        shape = (outputs, inputs // values, NUM_SCALES.get(dtype, 1))
        scales = random.normal(0, 0.01, shape).astype(np.float16).view(np.uint8)
    blocks[:, :, first : first + scales.shape[-1]] = scales
    blocks = blocks.reshape(outputs, -1)
    return torch.from_numpy(blocks), torch.from_numpy(gguf.dequantize(blocks, ggml_type).copy())
