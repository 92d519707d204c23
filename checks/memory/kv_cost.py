"""The KV cost of a sequence, measured by running the model on the meta device in the runners.

The cost differs from that of transformers' caches: in the contiguous runner a layer with a sliding window
keeps all tokens, and the paged runner stores keys and values as attention receives them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from checks.memory.meta_mode import MetaMode
from checks.memory.repeated_layers import LayerMode, compute_all_layers, dedup_layers
from inference.model.batch import Resize, UnsupportedModel, make_batch
from inference.model.contiguous.encoder_decoder import EncoderDecoderRunner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.module_map import map_modules
from inference.model.kv_cost import KVCost
from inference.model.paged.runner import PagedRunner
from inference.model.quantization.find_weights import find_weights
from inference.model.quantization.is_faster import sample_of
from inference.model.runner_selection.requirements import RunnerSize
from inference.model.runner_selection.runner_options import (
    contiguous_kv_cost,
    create_pool,
    paged_kv_cost,
    supports_fused,
)

CONTEXT = 64
NUM_PROMPT_TOKENS = 5  # more than one, and no likely dimension of a model
EXPERTS_IMPLEMENTATION = "batched_mm"  # works in any dtype and reads no value

# The values of RUNNER; AUTO is one of KV_DTYPE too.
AUTO, FUSED, PAGED, CONTIGUOUS, UNCACHED = "auto", "fused", "paged", "contiguous", "uncached"


class RunnerChoice(NamedTuple):
    """The settings that decide which runners may be selected.

    runner         the value of RUNNER
    deterministic  only runners whose rows do not change each other by a bit
    device         "cpu" or "cuda"
    kv_dtype       of keys and values, the value of KV_DTYPE
    """

    runner: str = AUTO
    deterministic: bool = False
    device: str = "cpu"
    kv_dtype: str = AUTO


ANY_RUNNER = RunnerChoice()


def measure_kv_cost(model: Any, choice: RunnerChoice = ANY_RUNNER) -> KVCost | None:
    """What a sequence takes.

    Nothing if every runner refuses the model: each step then recomputes the sequence without a cache. None if
    the cost depends on values. The model is on the meta device in the dtype it computes in, and must not be
    used afterwards.
    """
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(EXPERTS_IMPLEMENTATION)
    is_refused = True
    for cost in candidate_costs(model, choice):
        result = try_cost(cost)
        if isinstance(result, KVCost):
            return result
        is_refused &= result is not None
    return KVCost() if is_refused else None


def explain_refusal(model: Any, choice: RunnerChoice) -> str:
    """Why the runners that may be selected refuse the model; empty if one does not."""
    reason = ""
    for cost in candidate_costs(model, choice._replace(device="cpu")):
        result = try_cost(cost)
        if not isinstance(result, str):
            return ""
        reason = reason or result
    return reason


def try_cost(cost: Callable[[LayerMode], KVCost]) -> KVCost | str | None:
    """A runner's KV cost, or why it refuses the model; None if that depends on values."""
    reason: str | None = None
    for layer_mode in (dedup_layers, compute_all_layers):
        try:
            with MetaMode():
                return cost(layer_mode)
        except UnsupportedModel as error:
            reason = str(error)
        except Exception:  # its code reads values, or does not suit the runner
            reason = None
    return reason


class KVAccounting:
    """The KV cost of the layers that a runner computed and of the skipped layers that equal them."""

    def __init__(self, cost: Callable[[], KVCost]) -> None:
        self.cost = cost
        self.extra = KVCost()

    def mark(self) -> KVCost:
        return self.cost()

    def delta(self, mark: KVCost, remaining_bytes: int) -> KVCost:
        return self.cost() - mark

    def replay(self, delta: KVCost) -> None:
        self.extra += delta

    def total(self) -> KVCost:
        return self.cost() + self.extra


def candidate_costs(model: Any, choice: RunnerChoice) -> Iterator[Callable[[LayerMode], KVCost]]:
    """The KV cost of each runner that may be selected, in the order in which loading tries them.

    The fused runner, which computes on the CPU only, has the KV layout of the paged runner. Only their pages
    have a KV_DTYPE of their own.
    """
    runner, deterministic, device, kv_dtype = choice
    if runner == FUSED or (runner == AUTO and deterministic and device == "cpu"):
        yield partial(cost_of_fused, model, kv_dtype)
    if runner == PAGED or (runner == AUTO and not deterministic):
        yield partial(cost_of_paged, model, kv_dtype)
    if runner in (AUTO, CONTIGUOUS) and kv_dtype == AUTO:
        yield from (
            partial(cost_of_contiguous, model, chunked_prefill, not deterministic)
            for chunked_prefill in (True, False)
        )


def cost_of_fused(model: Any, kv_dtype: str, layer_mode: LayerMode) -> KVCost:
    try:
        map_modules(model)
    except (AttributeError, NotImplementedError) as error:  # the model does not name its parts
        raise UnsupportedModel(str(error)) from error
    return cost_of_paged(model, kv_dtype, layer_mode)


def cost_of_paged(model: Any, kv_dtype: str, layer_mode: LayerMode) -> KVCost:
    pool = create_pool(RunnerSize(1, CONTEXT, CONTEXT), kv_dtype=kv_dtype)
    runner = PagedRunner(model, pool, max_sequences=1, context=CONTEXT)
    accounting = KVAccounting(partial(paged_kv_cost, runner))
    with layer_mode(model, accounting):
        runner.probe()
    return accounting.total()


def cost_of_contiguous(
    model: Any,
    chunked_prefill: bool,
    batched: bool = True,
    layer_mode: LayerMode = compute_all_layers,
) -> KVCost:
    runner_class = EncoderDecoderRunner if model.config.is_encoder_decoder else ContiguousRunner
    runner = runner_class(
        model,
        max_sequences=1,
        context=CONTEXT,
        kv_capacity=CONTEXT,
        chunked_prefill=chunked_prefill,
        batched=batched,
    )
    accounting = KVAccounting(partial(contiguous_kv_cost, runner))
    prompt = tuple(range(NUM_PROMPT_TOKENS))
    with layer_mode(model, accounting):
        runner.forward(
            make_batch(
                token_ids=prompt,
                query_start_loc=(0, NUM_PROMPT_TOKENS),
                num_computed_tokens=(0,),
                rows=(0,),
                logits_indices=(NUM_PROMPT_TOKENS - 1,),
                cache_ops=(Resize(1, CONTEXT),),
                encoder_inputs={0: prompt} if runner.capabilities.encoder_decoder else {},
                page_size=CONTEXT,
            )
        )
    return accounting.total()


def may_run_fused(model: Any, runner: str = AUTO) -> bool:
    """Whether the fused runner may be selected. If so, all weights are packed without timing a sample."""
    return runner in (AUTO, FUSED) and supports_fused(model)


def count_pack_sample(model: Any) -> int:
    """Bytes of the sample of weights that is packed and timed; the model is on the meta device."""
    return sum(candidate.weight.nbytes for candidate in sample_of(list(find_weights(model, "meta"))))
