"""What a token costs: the weight matrices that it is multiplied with, in the formats that serving gives them.

Knows shapes and formats; no values, and no clock.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from checks.memory.plan import Plan
from checks.memory.planned_size import keeps_bits, keeps_mxfp4_experts
from checks.speed.estimate import TokenWork
from inference.model.gguf import kept_bits
from inference.model.load.gguf.file.header import GgufTensor
from inference.model.quantization.find_weights import MATRIX, STACK, WeightRole, find_weights
from inference.model.quantization.schemes import PACKED_BYTES, scheme_dtypes
from inference.native.packed_matrix import STORED_DTYPES
from inference.native.structs import NativeDtype

# Keys of a config for how many experts compute a token.
ACTIVE_EXPERTS_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "top_k",
)
GGUF_HEAD, GGUF_EMBEDDING = "output.weight", "token_embd.weight"


@dataclass(frozen=True, slots=True)
class TokenMatrix:
    """Equal matrices that a token is multiplied with.

    name   of the weight, in the model or in its GGUF file
    count  how many; for experts those of a token
    """

    name: str
    role: WeightRole
    dtype: NativeDtype
    outputs: int
    inputs: int
    count: int = 1


def token_work(matrices: Iterable[TokenMatrix], device: str) -> TokenWork:
    """What one token reads and multiplies. device: "cpu" or "cuda", where the packed weights are."""
    num_bytes, products = {True: 0, False: 0}, 0
    for each in matrices:
        is_head = each.role is WeightRole.HEAD
        num_bytes[is_head] += each.count * PACKED_BYTES[device](each.dtype, each.outputs, each.inputs)
        products += 0 if is_head else each.count * each.outputs * each.inputs
    return TokenWork(num_bytes[False], num_bytes[True], products)


def token_matrices(plan: Plan, model: Any) -> list[TokenMatrix]:
    """The matrices of a token. model: the plan's, on the meta device in float32."""
    tensors = packed_tensors(plan)
    every = matrices_of_file(plan, tensors, model) if tensors else matrices_of_model(plan, model)
    return [each for each in every if each.role is not WeightRole.EMBEDDING]


def packed_tensors(plan: Plan) -> Mapping[str, GgufTensor]:
    """The tensors of a GGUF file by name, if the model keeps their bits; else none."""
    assert plan.model_size is not None
    header = plan.repository.gguf_header if keeps_bits(plan.request) else None
    if header is None or not kept_bits.keeps_bits(header, getattr(torch, plan.model_size.dtype)):
        return {}
    return {tensor.name: tensor for tensor in header.tensors or ()}


def matrices_of_model(plan: Plan, model: Any) -> Iterator[TokenMatrix]:
    weights = list(find_weights(model, "meta"))
    for weight, dtype in zip(weights, scheme_dtypes(weights, plan.quantize), strict=True):
        num_stacked = prod(weight.weight.shape[:-MATRIX])
        is_expert = weight.role is WeightRole.EXPERTS
        count = active_experts(model, num_stacked) if is_expert else 1
        served_dtype = dtype or dtype_of(plan, weight.role)
        yield TokenMatrix(weight.name, weight.role, served_dtype, weight.outputs, weight.inputs, count)


def matrices_of_file(plan: Plan, tensors: Mapping[str, GgufTensor], model: Any) -> Iterator[TokenMatrix]:
    for name, tensor in tensors.items():
        if len(tensor.shape) not in (MATRIX, STACK):
            continue
        inputs, outputs, *stacked = tensor.shape
        role = WeightRole.EXPERTS if stacked else role_of(name, tensors)
        count = active_experts(model, *stacked) if stacked else 1
        yield TokenMatrix(name, role, dtype_of_tensor(plan, tensor), outputs, inputs, count)


def role_of(name: str, tensors: Mapping[str, GgufTensor]) -> WeightRole:
    """The role of a tensor of two dimensions: without an output layer, the embedding is used as one."""
    head = GGUF_HEAD if GGUF_HEAD in tensors else GGUF_EMBEDDING
    if name == head:
        return WeightRole.HEAD
    return WeightRole.EMBEDDING if name == GGUF_EMBEDDING else WeightRole.LAYER


def dtype_of_tensor(plan: Plan, tensor: GgufTensor) -> NativeDtype:
    """The format in which a matrix of a GGUF file is served."""
    assert plan.model_size is not None
    dtype = getattr(torch, plan.model_size.dtype)
    is_packable = kept_bits.is_packable(tensor, dtype)
    return kept_bits.PACKED_DTYPES[tensor.ggml_type] if is_packable else STORED_DTYPES[dtype]


def dtype_of(plan: Plan, role: WeightRole) -> NativeDtype:
    """The format in which weights of the role are served that are neither quantized nor of a GGUF file."""
    assert plan.model_size is not None
    dtype = getattr(torch, plan.model_size.dtype)
    if role is WeightRole.EXPERTS and keeps_mxfp4_experts(
        plan.repository, plan.request, plan.model_size.dtype
    ):
        return NativeDtype.MXFP4
    is_float16 = plan.model_size.stored_dtype == "float16" and dtype is torch.bfloat16
    keeps_float16 = is_float16 and plan.device == "cpu" and kept_bits.keeps_float16(dtype)
    return NativeDtype.F16 if keeps_float16 else STORED_DTYPES[dtype]


def active_experts(model: Any, num_experts: int) -> int:
    """How many of a layer's experts compute a token; all if the config does not say."""
    config = model.config.get_text_config()
    count = next((value for key in ACTIVE_EXPERTS_KEYS if (value := getattr(config, key, None))), num_experts)
    return min(int(count), num_experts)
