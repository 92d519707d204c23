"""The size of a model as a PlanRequest has it loaded: in its dtype, or with the bits of its files.

Knows a Repository and what loading keeps; model_size.py measures.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from checks.memory import ModelSize, measure_model, stored_dtype, try_build_on_meta
from checks.memory.kv_cost import RunnerChoice
from checks.memory.plan_request import PlanRequest
from checks.memory.remembered_size import remembered_size
from hub.repository import Repository
from hub.tensors import most_common_dtype
from inference.model.gguf.kept_bits import bytes_saved, may_keep_bits
from inference.model.gguf.tensor_shapes import mismatched_tensors
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG, quantization_for_loading
from inference.model.load.device_dtype import resolve_dtype
from inference.model.load.gguf.file.header import GgufHeader
from inference.model.load.gguf.tensors.unused_tensors import unused_tensors
from inference.model.weights import mxfp4_checkpoint

GGUF_DTYPE = "gguf"  # stored_dtype of the weights of a GGUF file


def measure_repository(repository: Repository, request: PlanRequest) -> ModelSize:
    """The size of one process; that of an earlier start is remembered."""
    raw_config, tensors = dict(repository.config), header_tensors(repository)
    if quantization := quantization_config(repository, request):
        raw_config[QUANTIZATION_CONFIG] = quantization
    runner_choice = RunnerChoice(request.runner, request.deterministic, request.device, request.kv_dtype)
    arguments = (request.num_shard, tensors, runner_choice)
    choose_compute_dtype = partial(choose_dtype, repository, request)
    measure = partial(measure_model, raw_config, repository.weight_bytes, choose_compute_dtype, *arguments)
    if header := repository.gguf_header:
        measure = partial(with_tensor_faults, measure, header, raw_config)
    chosen_by = (request.dtype, sorted(request.bfloat16_devices))  # the dtype, with the weights
    table = (header.architecture, header.tensors) if header else ()
    inputs = (raw_config, repository.weight_bytes, table, *chosen_by, *arguments)
    model_size = remembered_size(inputs, measure)
    if repository.gguf_file:
        return with_gguf_weights(model_size, repository, request)
    if tensors and keeps_mxfp4_experts(repository, request, model_size.dtype):
        saved = mxfp4_checkpoint.bytes_saved(tensors, getattr(torch, model_size.dtype))
        copied = model_size.load_copy_bytes - saved
        return replace(model_size, weights=model_size.weights - saved, load_copy_bytes=copied)
    return model_size


def keeps_mxfp4_experts(repository: Repository, request: PlanRequest, dtype: str) -> bool:
    """Whether the experts stay as they are in the files, MXFP4, in a model computed in `dtype`."""
    is_mxfp4 = mxfp4_checkpoint.is_mxfp4(repository.config)
    return is_mxfp4 and keeps_bits(request) and mxfp4_checkpoint.keeps_mxfp4(getattr(torch, dtype))


def with_tensor_faults(
    measure: Callable[[], ModelSize], header: GgufHeader, raw_config: Mapping[str, Any]
) -> ModelSize:
    """The measured size, with the tensors of the file that the model lacks or has in another shape."""
    model = try_build_on_meta(raw_config)
    if model is None:
        return measure()
    return replace(
        measure(),
        unused_weights=unused_tensors(header, model),
        mismatched_weights=mismatched_tensors(header, model),
    )


def with_gguf_weights(model_size: ModelSize, repository: Repository, request: PlanRequest) -> ModelSize:
    """The size with the weights as they are loaded from a GGUF file: with their bits, or dequantized."""
    dtype = getattr(torch, model_size.dtype)
    header = repository.gguf_header if keeps_bits(request) else None
    saved = bytes_saved(header, dtype) if header else 0
    weights = model_size.weights - saved
    return replace(model_size, weights=weights, stored_dtype=GGUF_DTYPE, load_copy_bytes=weights)


def keeps_bits(request: PlanRequest) -> bool:
    return may_keep_bits(request.device, request.quantize, request.num_shard, request.layer_devices)


def quantization_config(repository: Repository, request: PlanRequest) -> dict[str, Any]:
    """The quantization_config to load quantized weights with; empty if the files are not quantized."""
    stored_config = repository.config.get(QUANTIZATION_CONFIG)
    return (
        quantization_for_loading(stored_config, request.layer_devices or (request.device,))
        if isinstance(stored_config, Mapping)
        else {}
    )


def choose_dtype(repository: Repository, request: PlanRequest, num_parameters: int) -> str:
    """The dtype of the computation. The weight files decide what is stored, rather than config.json."""
    return resolve_dtype(
        request.dtype,
        device=request.device,
        stored=most_common_dtype(header_tensors(repository)) or stored_dtype(repository.config),
        parameters=num_parameters,
        bfloat16=request.device in request.bfloat16_devices,
    )


def header_tensors(repository: Repository) -> Mapping[str, Tensor] | None:
    """The tensors of the weight files, on the meta device; None if unknown."""
    return repository.headers.tensors if repository.headers else None
