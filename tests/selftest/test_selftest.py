"""The self-test of the served model: the demo model passes, and a runner that mixes its rows does not."""

from dataclasses import replace

import pytest
import torch

from inference.engine.step_output import StepOutput
from inference.factory import LoadedEngine, open_engine
from inference.model.batch import Batch, Runner
from inference.model.runner_selection.runner_options import BATCH_INVARIANT
from selftest import run, selftest
from selftest.compare import Comparison, Divergence, compare
from selftest.scenarios import CollectedAnswer, make_request
from settings.groups import EngineSettings, ModelSettings
from tests.engine.engine_probe import EngineProbe
from tests.selftest.demo_engine import DEMO, Mixing, engine


@pytest.fixture(scope="module")
def demo() -> LoadedEngine:
    return opened("float32", deterministic=False)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "NUM_NEW_TOKENS", 8)


def opened(dtype: str, deterministic: bool) -> LoadedEngine:
    return open_engine(
        DEMO,
        ModelSettings(dtype=dtype, device="cpu"),
        EngineSettings(
            context=900,
            max_sequences=4,
            kv_memory_bytes=1 << 26,
            max_batch_tokens=256,
            max_queued_tokens=100_000,
            deterministic=deterministic,
        ),
    )


def make_answer(ids: list[int], *tops: dict[int, float]) -> CollectedAnswer:
    result = CollectedAnswer()
    result.put(StepOutput(tuple(ids), tuple(0.0 for _ in ids), tuple(tuple(top.items()) for top in tops)))
    return result


def test_the_demo_model_passes_every_scenario(demo: LoadedEngine) -> None:
    findings = selftest(demo)
    assert [finding.name for finding in findings] == [
        *("runner", "alone", "batched", "neighbours", "preempted", "prefix", "drafts", "full batch", "speed")
    ]
    assert all(finding.ok and not finding.fix for finding in findings)
    assert demo.engine.stats().preemptions >= 4 and demo.engine.stats().accepted_tokens > 0
    have_by_name = {finding.name: finding.have for finding in findings}
    assert "tokens reused" in have_by_name["prefix"]
    assert have_by_name["runner"].startswith(f"{demo.selected_runner.name}, error ")
    assert have_by_name["full batch"] == "4 at once, 256 a step"


@pytest.mark.parametrize("share", (0.5, 0.01))
def test_a_runner_that_mixes_its_rows_is_detected(demo: LoadedEngine, share: float) -> None:
    mixed = engine(Mixing(demo.selected_runner.runner, share), demo.loaded_model.vocab)
    wrong = [finding for finding in selftest(replace(demo, engine=mixed)) if not finding.ok]
    assert "batched" in [finding.name for finding in wrong]
    assert all("the rest of its batch" in finding.fix for finding in wrong)


@pytest.mark.slow
def test_a_deterministic_engine_is_compared_bit_for_bit() -> None:
    served = opened("bfloat16", deterministic=True)
    findings = selftest(served)
    assert all(finding.ok for finding in findings)
    assert "to the last bit" in next(finding.have for finding in findings if finding.name == "batched")
    in_pieces = EngineProbe(served.engine).splits_prompts_evenly
    assert in_pieces == (served.selected_runner.runner_kind not in BATCH_INVARIANT)
    assert in_pieces == ("drafts" not in [finding.name for finding in findings])


class Failing:
    """A runner whose steps fail."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        raise ValueError("no room")


def test_a_full_batch_that_cannot_be_computed_is_reported_with_the_settings_to_lower(
    demo: LoadedEngine,
) -> None:
    failing = engine(Failing(demo.selected_runner.runner), demo.loaded_model.vocab)
    full = run.check_full_batch(failing, [make_request(tuple(range(3, 40)), 4)], run.TokenTimes(1e-3, 1e-3))
    assert not full.ok and full.need == "4 answers at once, 256 tokens a step"
    assert full.have and full.fix == run.SMALLER_FIX


def test_a_slow_model_gets_a_smaller_full_batch(demo: LoadedEngine) -> None:
    slow = run.TokenTimes(run.MAX_SECONDS / 2 / 8, 1.0)  # 8 tokens of a prompt take half of the allowed time
    full = run.check_full_batch(
        engine(demo.selected_runner.runner, demo.loaded_model.vocab),
        [make_request(tuple(range(3, 40)), 4)],
        slow,
    )
    assert full.ok and (full.need, full.have) == ("4 answers at once, 8 tokens a step", "4 at once, 8 a step")


def test_a_divergence_has_its_place_and_its_gap() -> None:
    right = make_answer([5, 6], {5: -0.1, 7: -3.0}, {6: -0.7, 8: -0.75})
    other = make_answer([5, 8], {5: -0.1, 7: -3.0}, {6: -0.76, 8: -0.7})
    verdict = compare([right], [other])
    assert verdict.divergences == [Divergence(0, 1, 6, 8, pytest.approx(0.05))]
    assert verdict.max_drift == pytest.approx(0.06) and verdict.worst == (0, 1)


def test_tokens_after_a_divergence_are_not_compared() -> None:
    right = make_answer([5, 6], {5: -0.1}, {6: -0.7})
    other = make_answer([9, 6], {9: -0.1, 5: -0.1}, {6: -9.0})
    assert compare([right], [other]).max_drift == 0


def test_the_place_of_the_largest_drift_is_reported_if_no_token_differs(demo: LoadedEngine) -> None:
    verdict = Comparison((), max_drift=2.0, worst=(2, 4))
    wrong, right = (
        run.judge_results(
            "batched",
            verdict,
            run.Tolerance(drift, allows_ties=False),
            demo.loaded_model.tokenizer,
            [CollectedAnswer()],
        )
        for drift in (0.01, 3.0)
    )
    assert not wrong.ok and wrong.have == "same, logprobs within 2e+00, the largest at prompt 3, token 5"
    assert right.ok and right.have == "same, logprobs within 2e+00"


@pytest.mark.parametrize(
    ("rule", "ok", "fix"),
    [
        (run.Tolerance(0.5, allows_ties=True), True, run.TIE_FIX),
        (run.Tolerance(0.01, allows_ties=True), False, run.DRIFT_FIX),
        (run.Tolerance(0.5, allows_ties=False), False, run.FAULT_FIX),
        (run.Tolerance(0.0, allows_ties=False), False, run.FAULT_FIX),
    ],
)
def test_a_tie_that_diverges_is_a_fault_unless_ties_are_allowed(
    demo: LoadedEngine, rule: run.Tolerance, ok: bool, fix: str
) -> None:
    verdict = Comparison([Divergence(2, 4, 65, 66, 0.05)], max_drift=0.1)
    finding = run.judge_results("batched", verdict, rule, demo.loaded_model.tokenizer, [CollectedAnswer()])
    assert (finding.ok, finding.fix) == (ok, fix)
    assert "prompt 3, token 5: 65 " in finding.have and "a gap of 0.05 logits" in finding.have
