"""The plan of how a model is served: device, dtype, context and sizes, made before its weights are fetched.

Knows a Repository and a PlanRequest; the resources of the machine are compared elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from checks.memory import ModelSize, measure_model, stored_dtype, try_build_on_meta
from checks.memory.kv_cost import RunnerChoice
from checks.memory.overhead import DEFAULT_OVERHEAD, Overhead
from checks.memory.remembered_size import remembered_size
from hub.model_config import config_error
from hub.repository import Repository
from hub.tensors import most_common_dtype
from inference.errors import BadRequest, named_error
from inference.finding import Finding, Refused
from inference.model.gguf.kept_bits import bytes_saved, may_keep_bits
from inference.model.gguf.tensor_shapes import mismatched_tensors
from inference.model.load.architecture import requires_remote_code, why_unsupported
from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG, quantization_for_loading
from inference.model.load.device_dtype import DEFAULT_CONTEXT, default_context, max_length_of, resolve_dtype
from inference.model.load.gguf.header import GgufHeader
from inference.model.load.gguf.unused_tensors import unused_tensors
from inference.model.load.rope import NO_SCALING, RopeScaling
from inference.model.weights import mxfp4_checkpoint

GGUF_DTYPE = "gguf"  # stored_dtype of the weights of a GGUF file


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The settings that a plan depends on.

    device                  "cpu" or "cuda"
    dtype                   a torch dtype, "stored" or "auto"
    bfloat16_devices        the devices that serve bfloat16 faster than float32
    context                 tokens of a sequence; 0: as many as fit
    max_sequences           most sequences that run at the same time
    max_batch_total_tokens  most tokens of all running sequences together; 0: no limit
    kv_memory_bytes         KV cache of all sequences and processes together; 0: the memory that is left
    trust_remote_code       the model's own Python may run
    num_shard               tensor-parallel processes
    layer_devices           the device of each layer; empty: all are on `device` (the first GPU, or the CPU)
    quantize                "none" or a key of ModelSize.quantization_savings
    imatrix                 the file by which errors of the weights are weighed; None: none
    stored_quantization     the quant_method that the weight files must have; empty: any or none
    runner                  "auto" or one of inference.model.runner_selection.RUNNERS
    kv_dtype                of keys and values, the value of KV_DTYPE
    deterministic           an answer does not depend on the other rows of its batch
    rope_scaling            scaling of the rotary position embeddings
    max_batch_tokens        most tokens of a step
    overhead                memory of the server in addition to the model
    tokenizer_config_path   a file whose chat template replaces the model's
    chat_template           a Jinja file or template that replaces both; empty: none
    num_adapter_values      numbers of the adapters in memory, in the dtype of the computation
    tuning_memory_bytes     what serving leaves to trainers on the first device of the model
    """

    device: str
    dtype: str
    bfloat16_devices: frozenset[str]
    context: int
    max_sequences: int
    kv_memory_bytes: int
    trust_remote_code: bool
    max_batch_total_tokens: int = 0
    num_shard: int = 1
    layer_devices: tuple[str, ...] = ()
    quantize: str = "none"
    imatrix: Path | None = None
    stored_quantization: str = ""
    runner: str = "auto"
    kv_dtype: str = "auto"
    deterministic: bool = False
    rope_scaling: RopeScaling = NO_SCALING
    max_batch_tokens: int = 512
    overhead: Overhead = DEFAULT_OVERHEAD
    tokenizer_config_path: Path | None = None
    chat_template: str = ""
    num_adapter_values: int = 0
    tuning_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """How one model is served. Fields without a description have the meaning of PlanRequest's.

    model_size       of one process; None if the model cannot be served
    default_context  tokens of context if the request has 0 and the memory is large enough
    context_limit    most tokens of context that the model supports; None: any number
    kv_memory_bytes  KV cache of one process; 0: the memory that is left
    request          the request that the plan was made for
    draft_plan       of the draft model; None: there is none
    """

    repository: Repository
    device: str
    model_size: ModelSize | None
    default_context: int
    context_limit: int | None
    max_sequences: int
    kv_memory_bytes: int
    trust_remote_code: bool
    request: PlanRequest
    num_shard: int = 1
    layer_devices: tuple[str, ...] = ()
    quantize: str = "none"
    max_batch_tokens: int = 512
    overhead: Overhead = DEFAULT_OVERHEAD
    draft_plan: "Plan | None" = None

    @property
    def context(self) -> int:
        """Tokens of a sequence; 0: as many as fit. The request's, lowered to context_limit."""
        return min(self.request.context, self.context_limit or self.request.context)

    @property
    def is_context_lowered(self) -> bool:
        """Whether the request has a longer context than the model."""
        return self.context < self.request.context


def make_plan(repository: Repository, request: PlanRequest) -> Plan:
    """Plan and measure the model. Raises Refused."""
    raw_config = repository.config
    is_servable = not why_unsupported(raw_config)

    def choose_compute_dtype(num_parameters: int) -> str:
        return choose_dtype(repository, request, num_parameters)

    config = (
        read_config(repository, request.rope_scaling)
        if is_servable and not requires_remote_code(raw_config)
        else None
    )
    context = (
        default_context(config)
        if config
        else int(raw_config.get("max_position_embeddings") or DEFAULT_CONTEXT)
    )
    context = request.rope_scaling.scale_length(context)
    context_limit = max_length_of(config) if config else None
    return Plan(
        repository=repository,
        model_size=measure_repository(repository, request, choose_compute_dtype) if is_servable else None,
        default_context=min(context, request.max_batch_total_tokens or context),
        context_limit=context_limit and request.rope_scaling.scale_length(context_limit),
        request=request,
        **shared_fields(request),
    )


def measure_repository(
    repository: Repository, request: PlanRequest, choose_compute_dtype: Callable[[int], str]
) -> ModelSize:
    raw_config, tensors = dict(repository.config), header_tensors(repository)
    if quantization := quantization_config(repository, request):
        raw_config[QUANTIZATION_CONFIG] = quantization
    runner_choice = RunnerChoice(request.runner, request.deterministic, request.device, request.kv_dtype)
    arguments = (request.num_shard, tensors, runner_choice)
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


def replan(plan: Plan, **changes: Any) -> Plan:
    """The plan for a changed request. Measures the model again if what is loaded changes.

    changes: fields of PlanRequest.
    """
    request = replace(plan.request, **changes)
    if loads_differently(plan, request):
        return replace(make_plan(plan.repository, request), draft_plan=plan.draft_plan)
    return replace(plan, request=request, **shared_fields(request))


def loads_differently(plan: Plan, request: PlanRequest) -> bool:
    """Whether other bytes are loaded for the request than the plan has measured."""
    repository, model_size = plan.repository, plan.model_size
    if model_size is None or plan.num_shard != request.num_shard:
        return True
    if model_size.dtype != choose_dtype(repository, request, model_size.num_parameters):
        return True
    has_packable_weights = repository.gguf_file or mxfp4_checkpoint.is_mxfp4(repository.config)
    return bool(has_packable_weights) and keeps_bits(plan.request) != keeps_bits(request)


def shared_fields(request: PlanRequest) -> dict[str, Any]:
    """The fields of a Plan that follow from the request alone; kv_memory_bytes is that of one process."""
    return {
        "device": request.device,
        "max_sequences": request.max_sequences,
        "kv_memory_bytes": request.kv_memory_bytes // request.num_shard,
        "trust_remote_code": request.trust_remote_code,
        "num_shard": request.num_shard,
        "layer_devices": request.layer_devices,
        "quantize": request.quantize,
        "max_batch_tokens": request.max_batch_tokens,
        "overhead": request.overhead,
    }


def header_tensors(repository: Repository) -> Mapping[str, Tensor] | None:
    """The tensors of the weight files, on the meta device; None if unknown."""
    return repository.headers.tensors if repository.headers else None


def choose_dtype(repository: Repository, request: PlanRequest, num_parameters: int) -> str:
    """The dtype of the computation. The weight files decide what is stored, rather than config.json."""
    return resolve_dtype(
        request.dtype,
        device=request.device,
        stored=most_common_dtype(header_tensors(repository)) or stored_dtype(repository.config),
        parameters=num_parameters,
        bfloat16=request.device in request.bfloat16_devices,
    )


def read_config(repository: Repository, rope_scaling: RopeScaling) -> Any:
    """The config as a transformers object, with the RoPE scaling. Raises Refused for an invalid value."""
    try:
        config = AutoConfig.for_model(**repository.config)
        rope_scaling.apply(config)
        return config
    except BadRequest as error:
        have = f"{repository.config.get('model_type')}, which has none"
        raise Refused(
            Finding("positions", error.rule, have, False, 'ROPE_SCALING = "none" and ROPE_FACTOR = 1')
        ) from error
    except Exception as error:  # the config class of an architecture may raise anything
        raise config_error(repository.name, named_error(error)) from error
