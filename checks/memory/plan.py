"""The plan of how a model is served: device, dtype, context and sizes, made before its weights are fetched.

Knows a Repository and a PlanRequest; the resources of the machine are compared elsewhere.
"""

from dataclasses import dataclass, replace
from typing import Any

from transformers import AutoConfig

from checks.memory import ModelSize
from checks.memory.overhead import DEFAULT_OVERHEAD, Overhead
from checks.memory.plan_request import PlanRequest
from checks.memory.planned_size import choose_dtype, keeps_bits, measure_repository
from hub.model_config import config_error
from hub.repository import Repository
from inference.errors import BadRequest, named_error
from inference.finding import Finding, Refused
from inference.model.load.architecture import requires_remote_code, why_unsupported
from inference.model.load.device_dtype import DEFAULT_CONTEXT, default_context, max_length_of
from inference.model.load.rope import RopeScaling
from inference.model.weights import mxfp4_checkpoint


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
        model_size=measure_repository(repository, request) if is_servable else None,
        default_context=min(context, request.max_batch_total_tokens or context),
        context_limit=context_limit and request.rope_scaling.scale_length(context_limit),
        request=request,
        **shared_fields(request),
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
