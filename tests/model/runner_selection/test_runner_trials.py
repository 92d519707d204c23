"""The first load of a model times its runners; later ones try the fastest of them only."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from inference.model.batch import Runner, UnsupportedModel
from inference.model.quantization.quantize import use_packed_weights
from inference.model.reference import Reference
from inference.model.remembered_trials import RememberedChoices
from inference.model.runner_selection import benchmark
from inference.model.runner_selection.benchmark import BuildRunner
from inference.model.runner_selection.requirements import ANY_RUNNER, RunnerLimits, RunnerSize
from inference.model.runner_selection.runner_options import RunnerOption, runner_options
from inference.model.runner_selection.runner_trials import Candidate, RunnerTrials
from tests.tiny_models.families import CONTEXT, needs_fused, tiny

TOLERANCE = 1e-3
FASTER, SLOWER = 0.5, 2.0  # an earlier runner, relative to a later one

Select = Callable[..., Candidate | None]


class Trials:
    """Loads of a model, and what they did: the options that were built, and how often two were timed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.built: list[str] = []
        self.num_timed = 0
        self.ratio = SLOWER

    def speed_ratio(self, *args: object) -> float:
        self.num_timed += 1
        return self.ratio

    def options(self, model: PreTrainedModel, reference: Reference, context: int) -> list[RunnerOption]:
        limits = RunnerLimits(max_sequences=1, context=context, kv_memory_bytes=0)
        options = runner_options(model, limits, ANY_RUNNER, TOLERANCE, reference.errors)
        return [each._replace(build=self.counted(each)) for each in options]

    def counted(self, option: RunnerOption) -> BuildRunner:
        def build(size: RunnerSize) -> Runner:
            self.built.append(option.kind)
            return option.build(size)

        return build

    def select(
        self,
        model: PreTrainedModel | None = None,
        fits: Callable[[Candidate], bool] = lambda candidate: True,
        without: str = "",
        context: int = CONTEXT,
    ) -> str:
        """The kind that a load selects; self.built and self.num_timed are those of this load."""
        model = model or tiny("gpt_neox")
        self.built, self.num_timed = [], 0
        reference = Reference(model)
        reference.choices = RememberedChoices(self.path)
        options = [each for each in self.options(model, reference, context) if each.kind != without]
        candidate = RunnerTrials(reference, TOLERANCE, context).fastest_correct(options, fits)
        assert candidate is not None
        return candidate.option.kind


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trials:
    trials = Trials(tmp_path / "choices" / "model")
    monkeypatch.setattr(benchmark, "speed_ratio", trials.speed_ratio)
    monkeypatch.setattr(benchmark, "step_s", lambda *args: 0.0)
    return trials


@pytest.mark.parametrize(("ratio", "kind"), [(SLOWER, "paged"), (FASTER, "contiguous")])
def test_a_later_load_tries_the_fastest_only(
    trials: Trials, ratio: float, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    trials.ratio = ratio
    assert trials.select() == kind and trials.num_timed == 1
    with caplog.at_level(logging.INFO, logger="inference.model.runner_selection.runner_trials"):
        assert trials.select() == kind
    assert (trials.built, trials.num_timed) == ([kind], 0)
    assert caplog.messages[-1].endswith("was the fastest at an earlier load")


def test_no_step_is_timed_to_find_out_whether_the_others_matter(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[float] = []
    monkeypatch.setattr(benchmark, "step_s", lambda *args: timed.append(1.0) or 1.0)
    assert [trials.select(), trials.num_timed, len(timed)] == ["paged", 0, 1]
    assert [trials.select(), trials.num_timed, len(timed)] == ["paged", 0, 1]


def test_other_options_and_another_context_are_timed_again(trials: Trials) -> None:
    trials.select()
    trials.select(context=CONTEXT // 2)
    assert trials.num_timed == 1
    trials.select(without="contiguous")
    assert trials.built == ["fused", "paged"]
    trials.select()
    assert trials.num_timed == 0, "the other choices are remembered beside the first"


@needs_fused
def test_packed_weights_are_timed_again(trials: Trials) -> None:
    trials.select(tiny("gpt_neox"))
    model = tiny("gpt_neox")
    assert use_packed_weights(model, Reference(model), TOLERANCE, required=True)
    trials.select(model)
    assert trials.num_timed == 1


def test_the_fastest_is_not_used_where_its_memory_does_not_suffice(trials: Trials) -> None:
    trials.ratio = FASTER
    assert trials.select() == "contiguous"
    assert trials.select(fits=lambda candidate: candidate.option.kind == "paged") == "paged"
    assert trials.select() == "contiguous" and trials.num_timed == 0, "it is still the fastest"


def test_a_choice_that_the_memory_has_made_is_not_remembered(trials: Trials) -> None:
    trials.ratio = FASTER
    assert trials.select(fits=lambda candidate: candidate.option.kind == "paged") == "paged"
    assert trials.select() == "contiguous" and trials.num_timed == 1


def test_the_fastest_is_not_used_where_it_is_wrong_now(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trials.select() == "paged"
    counted = trials.counted

    def refuse(size: RunnerSize) -> Runner:
        raise UnsupportedModel("no pages today")

    monkeypatch.setattr(
        trials, "counted", lambda option: refuse if option.kind == "paged" else counted(option)
    )
    assert trials.select() == "contiguous"


def test_a_load_that_times_nothing_recalls_nothing(trials: Trials) -> None:
    trials.ratio = FASTER
    trials.select()
    model = tiny("gpt_neox")
    reference = Reference(model)
    reference.choices = RememberedChoices(trials.path)
    options = trials.options(model, reference, CONTEXT)
    candidate = RunnerTrials(reference, TOLERANCE, CONTEXT).first_correct(options)
    assert candidate is not None and candidate.option.kind == "paged"
