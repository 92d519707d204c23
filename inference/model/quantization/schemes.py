"""The quantization schemes: the dtype of each weight by its role, and the bytes that a scheme saves.

Those with GGUF formats have the names of llama.cpp's mixes; gguf_mix.py says which weights get more bits.

Reads no values: the model may be on the meta device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.model.quantization.find_weights import FoundWeight, WeightRole, find_weights
from inference.model.quantization.gguf_mix import count_layers, gets_more_bits, with_whole_blocks
from inference.model.quantization.words import padded_inputs
from inference.native.packed_matrix import GROUP, NATIVE_DTYPES, PANEL
from inference.native.prefault import round_up
from inference.native.structs import NativeDtype

NONE, INT8, INT4 = "none", "int8", "int4"
Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 = GGUF_SCHEMES = "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"
NATIVE_DTYPES_BY_SIZE = {dtype.itemsize: native for dtype, native in NATIVE_DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a model's weights are quantized.

    scheme   NONE or a name of SCHEMES
    device   where the quantized weights are to be; empty: where the model is
    imatrix  a file with the importance of inputs, for schemes with GGUF formats; None: there is none
    """

    scheme: str = NONE
    device: str = ""
    imatrix: Path | None = None


UNQUANTIZED = Quantization()


def roles(
    layer: NativeDtype, head: NativeDtype, embedding: NativeDtype
) -> Mapping[WeightRole, NativeDtype | None]:
    """The dtype of each role; None: the model's own, because SMALL saves little."""
    return {
        WeightRole.LAYER: layer,
        WeightRole.EXPERTS: layer,
        WeightRole.SMALL: None,
        WeightRole.HEAD: head,
        WeightRole.EMBEDDING: embedding,
    }


# The head has more bits because its error affects every logit.
SCHEMES: Mapping[str, Mapping[WeightRole, NativeDtype | None]] = {
    NONE: dict.fromkeys(WeightRole),
    INT8: roles(NativeDtype.INT8, NativeDtype.INT8, NativeDtype.INT8),
    INT4: roles(NativeDtype.INT4, NativeDtype.INT8, NativeDtype.INT8),
    Q8_0: roles(NativeDtype.Q8_0, NativeDtype.Q8_0, NativeDtype.Q8_0),
    Q6_K: roles(NativeDtype.Q6_K, NativeDtype.Q6_K, NativeDtype.Q6_K),
    Q5_K_M: roles(NativeDtype.Q5_K, NativeDtype.Q6_K, NativeDtype.Q5_K),
    Q4_K_M: roles(NativeDtype.Q4_K, NativeDtype.Q6_K, NativeDtype.Q4_K),
    Q4_0: roles(NativeDtype.Q4_0, NativeDtype.Q6_K, NativeDtype.Q4_0),
}
# What some weights of a mix have instead.
MORE_BITS: Mapping[str, NativeDtype] = {Q5_K_M: NativeDtype.Q6_K, Q4_K_M: NativeDtype.Q6_K}
DEVICE_SCHEMES = {"cpu": (INT8, INT4, *GGUF_SCHEMES), "cuda": (INT8, INT4)}
# Bytes of (a value, the scale of an output, the scale of a group of inputs), see matrix.h.
BYTES = {
    NativeDtype.F32: (4, 0, 0),
    NativeDtype.BF16: (2, 0, 0),
    NativeDtype.F16: (2, 0, 0),
    NativeDtype.INT8: (1, 4, 0),
    NativeDtype.INT4: (0.5, 0, 2),
    NativeDtype.Q8_0: (1, 0, 2),
    NativeDtype.Q4_0: (0.5, 0, 2),
    NativeDtype.Q4_1: (0.5, 0, 4),
    NativeDtype.Q5_0: (0.625, 0, 2),
    NativeDtype.Q5_1: (0.625, 0, 4),
    NativeDtype.Q2_K: (0.25, 0, 2.5),
    NativeDtype.Q3_K: (0.375, 0, 1.75),
    NativeDtype.Q4_K: (0.5, 0, 2),
    NativeDtype.Q5_K: (0.625, 0, 2),
    NativeDtype.Q6_K: (0.75, 0, 2.25),
    NativeDtype.IQ4_NL: (0.5, 0, 2),
    NativeDtype.IQ4_XS: (0.5, 0, 1),
    NativeDtype.MXFP4: (0.5, 0, 1),
}
BIAS = {"cpu": 4, "cuda": 0}  # bytes of a bias value: a PackedMatrix has its own float32 copy of the bias
DEVICE_BITS = {NativeDtype.INT8: 8, NativeDtype.INT4: 4}  # of the quantized values of a DeviceMatrix


def scheme_dtypes(weights: Sequence[FoundWeight], quantize: str) -> list[NativeDtype | None]:
    """The dtypes that a scheme gives all the weights of a model; None: the model's own."""
    num_layers = count_layers(weight.name for weight in weights)
    return [scheme_dtype(weight, quantize, num_layers) for weight in weights]


def scheme_dtype(weight: FoundWeight, quantize: str, num_layers: int) -> NativeDtype | None:
    dtype = SCHEMES[quantize][weight.role]
    if dtype is None:
        return None
    if quantize in MORE_BITS and gets_more_bits(weight.name, num_layers):
        dtype = MORE_BITS[quantize]
    return with_whole_blocks(dtype, weight.inputs)


def packed_dtypes(weights: Sequence[FoundWeight], quantize: str) -> list[NativeDtype]:
    """The dtypes of the matrices that all the weights of a model are packed into."""
    return [
        NATIVE_DTYPES[weight.weight.dtype] if dtype is None else dtype
        for weight, dtype in zip(weights, scheme_dtypes(weights, quantize), strict=True)
    ]


def bytes_saved(model: Any, itemsize: int, device: str) -> dict[str, int]:
    """Scheme → bytes that it saves on a meta-device model whose values would take `itemsize` bytes each.

    device: "cpu" or "cuda", where the packed weights are
    """
    weights = list(find_weights(model, "meta"))
    return {
        scheme: sum(weight_bytes_saved(weights, scheme, itemsize, device).values())
        for scheme in DEVICE_SCHEMES[device]
    }


def weight_bytes_saved(
    weights: Sequence[FoundWeight], quantize: str, itemsize: int, device: str
) -> dict[str, int]:
    """Bytes saved on each of all the weights of a model, by name."""
    return {
        weight.name: bytes_saved_on(weight, dtype, itemsize, device)
        for weight, dtype in zip(weights, scheme_dtypes(weights, quantize), strict=True)
    }


def bytes_saved_on(weight: FoundWeight, scheme_dtype: NativeDtype | None, itemsize: int, device: str) -> int:
    """Bytes saved on one weight; negative on a CPU if it keeps its dtype: outputs are padded to panels."""
    dtype = NATIVE_DTYPES_BY_SIZE[itemsize] if scheme_dtype is None else scheme_dtype
    matrices = weight.weight.numel() // (weight.outputs * weight.inputs)
    packed_bytes = matrices * PACKED_BYTES[device](dtype, weight.outputs, weight.inputs)
    bias = 0 if weight.bias is None else BIAS[device] * weight.bias.numel()
    return weight.weight.numel() * itemsize - packed_bytes - bias


def matrix_bytes(dtype: NativeDtype, outputs: int, inputs: int) -> int:
    """Bytes of a PackedMatrix: outputs are padded to a multiple of PANEL, inputs to one of GROUP."""
    outputs, groups = round_up(outputs, PANEL), -(-inputs // GROUP)
    value, output, group = BYTES[dtype]
    return int(outputs * (groups * (GROUP * value + group) + output))


def device_matrix_bytes(dtype: NativeDtype, outputs: int, inputs: int) -> int:
    """Bytes of a DeviceMatrix: quantized inputs are padded to whole blocks of words, outputs are not."""
    value, output, group = BYTES[dtype]
    if dtype not in DEVICE_BITS:
        return int(outputs * inputs * value)
    values = padded_inputs(inputs, DEVICE_BITS[dtype]) * value
    return int(outputs * (values + -(-inputs // GROUP) * group + output))


PACKED_BYTES = {"cpu": matrix_bytes, "cuda": device_matrix_bytes}
