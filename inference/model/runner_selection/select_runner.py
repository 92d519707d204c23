"""Selects the runner of a model: each candidate computes a few tokens, and the fastest correct one is used.

Correctness is measured at load, never read from a flag: the worst case is slow, never wrong. Knows runners
by their interface; nothing of their internals.
"""

import logging
from dataclasses import dataclass, replace

from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.batch import Runner
from inference.model.kv_cost import KVCost
from inference.model.load.rope import freeze_frequencies
from inference.model.paged.kv_pool import AUTO
from inference.model.paged.rounded_attention import rounded_reference
from inference.model.quantization.error import QuantError, measure_quant_error
from inference.model.quantization.quantize import WARN_ERROR
from inference.model.quantization.schemes import UNQUANTIZED, Quantization
from inference.model.reference import COLUMNS, ROWS, Reference
from inference.model.runner_selection.requirements import ANY_RUNNER, RunnerLimits, RunnerRules, RunnerSize
from inference.model.runner_selection.runner_options import runner_options, supports_fused
from inference.model.runner_selection.runner_trials import Candidate, RunnerTrials
from inference.model.uncached.runner import UncachedRunner
from inference.model.weights.prepare_weights import (
    QUANTIZED_TOLERANCE,
    MakeReference,
    Prepared,
    prepare_weights,
    tolerance_of,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SelectedRunner:
    """A runner verified for its model.

    runner_kind  one of RUNNERS; `name` is more specific
    error        largest difference of a logit from the reference, in standard deviations of the logits
    kv_cost      what its KV memory takes
    quant_error  error caused by quantization; None if the weights are those of the files
    """

    runner: Runner
    runner_kind: str
    name: str
    error: float
    kv_cost: KVCost
    quant_error: QuantError | None = None


def select_runner(
    model: PreTrainedModel,
    limits: RunnerLimits,
    rules: RunnerRules = ANY_RUNNER,
    quantization: Quantization = UNQUANTIZED,
    make_reference: MakeReference = Reference,
) -> SelectedRunner:
    """Return the fastest runner whose logits match the model's own forward pass.

    make_reference: gives the logits of the model as it was loaded.

    Takes about a second, longer for a large model. The model computes as before afterwards, except for rotary
    frequencies that depend on length (load/rope.py) and what prepare_weights.py changes. Raises Unavailable
    if the memory does not hold one row of the whole context, the model's logits are not finite, or the model
    cannot be quantized.
    """
    for kind in set(freeze_frequencies(model, limits.context)):
        log.info("%s: %s frequencies fixed for %d tokens", model.config.model_type, kind, limits.context)
    prepared = prepare_weights(
        model,
        quantization,
        timed=rules.timed,
        needs_packing="fused" in rules.kinds and supports_fused(model),
        make_reference=make_reference,
    )
    if rules.kv_dtype != AUTO and prepared.is_causal and model.device.type == "cpu":
        prepared = with_rounded_kv(model, prepared)
    reference, tolerance = prepared.reference, prepared.tolerance
    options = runner_options(model, limits, rules, tolerance, reference.errors) if prepared.is_causal else ()

    def fits(candidate: Candidate) -> bool:
        required_bytes = candidate.kv_cost.required_bytes(limits.of_pages(candidate.page_size))
        return required_bytes <= limits.kv_memory_bytes

    trials = RunnerTrials(reference, tolerance, limits.context)
    best = trials.fastest_correct([*options], fits) if rules.timed else trials.first_correct(options)
    if best is None:
        check_may_run_uncached(model, rules)
        selected = select_uncached(model, reference, prepared.is_causal, tolerance, limits)
    else:
        selected = with_memory(model, best, limits)
    return replace(selected, quant_error=prepared.quant_error)


def with_rounded_kv(model: PreTrainedModel, prepared: Prepared) -> Prepared:
    """The same weights, with the logits of keys and values in 8 bits, whose loss is logged."""
    reference = rounded_reference(model)
    reference.errors, reference.choices = prepared.reference.errors, prepared.reference.choices
    error = measure_quant_error(prepared.reference.logits, reference.logits)
    log_error = log.warning if error.max_error > WARN_ERROR else log.info
    log_error("%s: keys and values in 8 bits: %s", model.config.model_type, error)
    tolerance = max(prepared.tolerance, tolerance_of(reference, QUANTIZED_TOLERANCE))
    return replace(prepared, reference=reference, tolerance=tolerance)


def check_may_run_uncached(model: PreTrainedModel, rules: RunnerRules) -> None:
    """Raise Unavailable if the settings exclude the uncached runner, the only one left."""
    kind = model.config.model_type
    if rules.kv_dtype != AUTO:
        raise Unavailable(
            f"{kind} cannot be run with keys and values in 8 bits: see the log, or set KV_DTYPE={AUTO!r}"
        )
    if "uncached" not in rules.kinds:
        raise Unavailable(
            f"{kind} cannot be run by the runner that RUNNER names: see the log, or set RUNNER={AUTO!r}"
        )


def with_memory(model: PreTrainedModel, candidate: Candidate, limits: RunnerLimits) -> SelectedRunner:
    """Build the candidate's runner with its final memory: at most the whole context for each row."""
    max_sequences, context, num_bytes = limits.max_sequences, limits.context, limits.kv_memory_bytes
    option, kv_cost, kv_limits = candidate.option, candidate.kv_cost, limits.of_pages(candidate.page_size)
    required_bytes = kv_cost.required_bytes(kv_limits)
    if num_bytes < required_bytes:
        raise Unavailable(
            f"one sequence of the whole context ({context} tokens) needs {required_bytes / 2**20:.0f} MiB of "
            f"KV memory, {num_bytes / 2**20:.0f} MiB are free: "
            f"lower CONTEXT ({context}) or MAX_SEQUENCES ({max_sequences})"
        )
    max_tokens = limits.max_batch_total_tokens or kv_limits.max_tokens
    kv_capacity = min(kv_cost.max_tokens(num_bytes, kv_limits), max_tokens)
    window_groups = kv_cost.window_groups(kv_capacity, num_bytes, kv_limits)
    runner = option.build(RunnerSize(max_sequences, context, kv_capacity, window_groups))
    selected = SelectedRunner(runner, option.kind, option.name, candidate.error, kv_cost)
    return log_selected(model, selected)


def select_uncached(
    model: PreTrainedModel,
    reference: Reference,
    is_causal: bool,
    tolerance: float,
    limits: RunnerLimits,
) -> SelectedRunner:
    """Return the uncached runner, which is correct unless the model keeps state between calls.

    Raises Unavailable for such a model, and for one whose logits change with its cache.
    """
    trial_runner = UncachedRunner(model, max_sequences=ROWS, context=COLUMNS)
    error = reference.error_of(trial_runner) if is_causal else 0.0
    if not error <= tolerance:
        raise Unavailable(f"{model.config.model_type} computes different logits for the same tokens")
    if not is_causal and reference.cache_error() > tolerance:
        raise Unavailable(f"{model.config.model_type} computes different logits with a cache than without")
    runner = UncachedRunner(
        model, max_sequences=limits.max_sequences, context=limits.context, is_causal=is_causal
    )
    return log_selected(model, SelectedRunner(runner, "uncached", "uncached", error, KVCost()))


def log_selected(model: PreTrainedModel, selected: SelectedRunner) -> SelectedRunner:
    log.info("%s: %s, error %.0e", model.config.model_type, selected.name, selected.error)
    return selected
