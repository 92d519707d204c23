"""Tries the options to run a model: which compute it correctly, and which of those is the fastest.

Knows runners by their interface, and the Reference; nothing of their final memory.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from inference.model.batch import Runner, UnsupportedModel
from inference.model.kv_cost import KVCost
from inference.model.quantization.replace import packed_matrices
from inference.model.reference import COLUMNS, ROWS, Reference
from inference.model.runner_selection import benchmark
from inference.model.runner_selection.requirements import RunnerSize
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


@dataclass(frozen=True, slots=True)
class RunnerTrials:
    """Tries the options of the model that a Reference is of.

    tolerance  largest accepted error of a logit, in standard deviations
    context    tokens of a row of the final runner: options are timed on rows of at most that length
    """

    reference: Reference
    tolerance: float
    context: int

    @property
    def model_type(self) -> str:
        return self.reference.model.config.model_type

    def first_correct(self, options: Iterable[RunnerOption]) -> Candidate | None:
        return next((each for option in options if (each := self.try_option(option))), None)

    def fastest_correct(
        self, options: Sequence[RunnerOption], fits: Callable[[Candidate], bool]
    ) -> Candidate | None:
        """The fastest correct option; None if none is correct.

        fits: whether the memory suffices; where it does for no option, it does not for the returned one. One
        that was the fastest at an earlier load is the only one to be tried.
        """
        compared = self.describe(options)
        remembered = self.reference.choices.fastest.get(compared)
        earlier = self.first_correct(each for each in options if each.name == remembered)
        if earlier and fits(earlier):
            log.info("%s: %s was the fastest at an earlier load", self.model_type, remembered)
            return earlier
        candidates = self.try_options(options)
        if not candidates:
            return None
        fitting = [each for each in candidates if fits(each)]
        best = self.fastest(fitting or candidates)
        if len(fitting) == len(candidates):  # else another amount of memory may have another choice
            self.reference.choices.remember(compared, best.option.name)
        return best

    def describe(self, options: Iterable[RunnerOption]) -> str:
        """What a choice depends on beside the model's files, the code and the processor."""
        formats = {matrix.dtype.name for matrix in packed_matrices(self.reference.model)}
        return "; ".join((*sorted(formats), f"{self.context} tokens", *(option.name for option in options)))

    def try_options(self, options: Iterable[RunnerOption]) -> list[Candidate]:
        """The first correct option of each kind."""
        candidates: dict[str, Candidate] = {}
        for option in options:
            if option.kind in candidates:
                continue
            candidate = self.try_option(option)
            if candidate is None:
                continue
            candidates[option.kind] = candidate
            if self.is_decisive(candidate):
                break
        return list(candidates.values())

    def is_decisive(self, candidate: Candidate) -> bool:
        """Whether the remaining options cannot be faster, or are not worth the time of a trial."""
        return (
            candidate.runner.capabilities.paged
            and benchmark.step_s(candidate.runner, COLUMNS, self.reference.ids) > candidate.option.slow_s
        )

    def try_option(self, option: RunnerOption) -> Candidate | None:
        """Return the candidate; None, with the reason logged, if the option computes the model wrongly."""
        try:
            runner = option.build(RunnerSize(ROWS, COLUMNS, kv_capacity=ROWS * COLUMNS))
            error_of = self.reference.error_of
            error = self.reference.errors.measure(
                option.name, partial(error_of, runner), partial(error_of, runner, num_steps=1)
            )
            if error <= self.tolerance:
                return Candidate(option, runner, error)
            reason = f"error {error:.2g} exceeds the {self.tolerance:.2g} allowed"
        except torch.OutOfMemoryError:
            raise
        except UnsupportedModel as unsupported:
            reason = str(unsupported)
        except Exception as raised:  # any model code, called in a way that it may not support
            reason = f"{type(raised).__name__}: {raised}"
        log.info("%s: %s runner rejected: %s", self.model_type, option.name, reason)
        return None

    def fastest(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the fastest candidate; an earlier one wins unless a later one is clearly faster."""
        best, *others = candidates
        for other in others:
            ratio = benchmark.speed_ratio(
                best.option.build, other.option.build, self.reference.ids, self.context
            )
            names = best.option.name, other.option.name
            log.info("%s: %s is %.2fx as fast as %s", self.model_type, names[0], ratio, names[1])
            best = best if ratio >= benchmark.TIE else other
        return best
