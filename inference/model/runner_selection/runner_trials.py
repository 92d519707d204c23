"""Tries the options to run a model: which compute it correctly, and which of those is the fastest.

Knows runners by their interface, and the Reference; nothing of their final memory.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from transformers import PreTrainedModel

from inference.model.batch import Runner, UnsupportedModel
from inference.model.kv_cost import KVCost
from inference.model.quantization.replace import packed_matrices
from inference.model.reference import COLUMNS, ROWS, Reference
from inference.model.runner_selection import benchmark
from inference.model.runner_selection.runner_options import RunnerOption

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An option whose trial runner computed the model correctly."""

    option: RunnerOption
    runner: Runner
    error: float

    @property
    def kv_cost(self) -> KVCost:
        return self.option.kv_cost(self.runner)

    @property
    def page_size(self) -> int:
        return self.runner.page_size if self.runner.capabilities.paged else 1


def select_candidate(
    model: PreTrainedModel,
    reference: Reference,
    options: Sequence[RunnerOption],
    tolerance: float,
    fits: Callable[[Candidate], bool],
    *,
    context: int,
    timed: bool,
) -> Candidate | None:
    """The fastest correct option; None if none is correct.

    fits: whether the memory suffices; where it does for no option, it does not for the returned one. timed:
    False: the first correct option. One that was the fastest at an earlier load is the only one to be tried.
    """
    if not timed:
        return next(iter(try_runners(model, reference, options, tolerance, timed=False)), None)
    compared = describe_options(model, options, context)
    remembered = reference.choices.fastest.get(compared)
    fastest_option = [each for each in options if each.name == remembered]
    for candidate in try_runners(model, reference, fastest_option, tolerance, timed=False):
        if fits(candidate):
            log.info("%s: %s was the fastest at an earlier load", model.config.model_type, remembered)
            return candidate
    candidates = try_runners(model, reference, options, tolerance, timed=True)
    if not candidates:
        return None
    fitting = [each for each in candidates if fits(each)]
    best = fastest(model, reference, fitting or candidates, context)
    if len(fitting) == len(candidates):  # else another amount of memory may have another choice
        reference.choices.remember(compared, best.option.name)
    return best


def describe_options(model: PreTrainedModel, options: Iterable[RunnerOption], context: int) -> str:
    """What a choice depends on beside the model's files, the code and the processor."""
    formats = {matrix.dtype.name for matrix in packed_matrices(model)}
    return "; ".join((*sorted(formats), f"{context} tokens", *(option.name for option in options)))


def try_runners(
    model: PreTrainedModel,
    reference: Reference,
    options: Iterable[RunnerOption],
    tolerance: float,
    *,
    timed: bool,
) -> list[Candidate]:
    """The first correct option of each kind. timed=False: only the first correct option of all."""
    candidates: dict[str, Candidate] = {}
    for option in options:
        if option.kind in candidates:
            continue
        candidate = try_runner(model, reference, option, tolerance)
        if candidate is None:
            continue
        candidates[option.kind] = candidate
        if not timed or is_decisive(candidate, reference):
            break
    return list(candidates.values())


def is_decisive(candidate: Candidate, reference: Reference) -> bool:
    """Whether the remaining options cannot be faster, or are not worth the time of a trial."""
    return (
        candidate.runner.capabilities.paged
        and benchmark.step_s(candidate.runner, COLUMNS, reference.ids) > candidate.option.slow_s
    )


def try_runner(
    model: PreTrainedModel, reference: Reference, option: RunnerOption, tolerance: float
) -> Candidate | None:
    """Return the candidate; None, with the reason logged, if the option computes the model wrongly."""
    try:
        runner = option.build(max_sequences=ROWS, context=COLUMNS, kv_capacity=ROWS * COLUMNS)
        error = reference.errors.measure(
            option.name, partial(reference.error_of, runner), partial(reference.error_of, runner, num_steps=1)
        )
        if error <= tolerance:
            return Candidate(option, runner, error)
        reason = f"error {error:.2g} exceeds the {tolerance:.2g} allowed"
    except torch.OutOfMemoryError:
        raise
    except UnsupportedModel as unsupported:
        reason = str(unsupported)
    except Exception as raised:  # any model code, called in a way that it may not support
        reason = f"{type(raised).__name__}: {raised}"
    log.info("%s: %s runner rejected: %s", model.config.model_type, option.name, reason)
    return None


def fastest(
    model: PreTrainedModel, reference: Reference, candidates: list[Candidate], context: int
) -> Candidate:
    """Return the fastest candidate; an earlier one wins unless a later one is clearly faster."""
    best, *others = candidates
    for other in others:
        ratio = benchmark.speed_ratio(best.option.build, other.option.build, reference.ids, context)
        log.info(
            "%s: %s is %.2fx as fast as %s",
            model.config.model_type,
            best.option.name,
            ratio,
            other.option.name,
        )
        best = best if ratio >= benchmark.TIE else other
    return best
