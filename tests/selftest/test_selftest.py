"""The proof for the served model: the demo model passes it, and a runner that mixes its rows does not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record
from inference.model.batch import Batch, Runner
from inference.model.seats import STEADY
from inference.opening import Opened, open_engine
from selftest import proof, selftest
from selftest.asked import Answer, task
from selftest.verdict import Turn, Verdict, compare

DEMO = Path(__file__).parent.parent.parent / "models" / "demo"


class Mixing:
    """A runner of which the first row's logits are a little of the last one's."""

    def __init__(self, runner: Runner, share: float) -> None:
        self.runner, self.share = runner, share

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        logits = self.runner.forward(batch)
        if len(batch.rows) > 1 and len(logits) > 1:
            logits[0] += self.share * logits[-1]
        return logits


@pytest.fixture(scope="module")
def demo() -> Opened:
    return opened("float32", deterministic=False)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "NEW", 8)


def opened(dtype: str, deterministic: bool) -> Opened:
    return open_engine(
        DEMO,
        dtype=dtype,
        device="cpu",
        context=900,
        max_rows=4,
        kv_bytes=1 << 26,
        max_batch_tokens=256,
        max_queued_tokens=100_000,
        trust_remote_code=False,
        deterministic=deterministic,
    )


def engine(runner: Runner, vocab: int) -> Engine:
    return Engine(runner, Sampler(vocab), max_batch_tokens=256, max_queued_tokens=100_000)


def answer(ids: list[int], *tops: dict[int, float]) -> Answer:
    made = Answer()
    made.put(Record(tuple(ids), tuple(0.0 for _ in ids), tuple(tuple(top.items()) for top in tops)))
    return made


def test_the_demo_model_passes_in_every_way(demo: Opened) -> None:
    findings = selftest(demo)
    assert [finding.name for finding in findings] == [
        *("seat", "alone", "batched", "neighbours", "preempted", "prefix", "drafts", "full batch", "speed")
    ]
    assert all(finding.ok and not finding.mend for finding in findings)
    assert demo.engine.stats().preemptions >= 4 and demo.engine.stats().accepted_tokens > 0
    told = {finding.name: finding.have for finding in findings}
    assert "tokens reused" in told["prefix"]
    assert told["seat"].startswith(f"{demo.fitted.name}, error ")
    assert told["full batch"] == "4 at once, 256 a step"


@pytest.mark.parametrize("share", (0.5, 0.01))
def test_a_runner_that_mixes_its_rows_is_found_out(demo: Opened, share: float) -> None:
    mixed = engine(Mixing(demo.fitted.runner, share), demo.loaded.vocab)
    wrong = [finding for finding in selftest(replace(demo, engine=mixed)) if not finding.ok]
    assert "batched" in [finding.name for finding in wrong]
    assert all("neighbours" in finding.mend for finding in wrong)


@pytest.mark.slow
def test_a_deterministic_engine_is_held_to_the_last_bit() -> None:
    served = opened("bfloat16", deterministic=True)
    findings = selftest(served)
    assert all(finding.ok for finding in findings)
    assert "to the last bit" in next(finding.have for finding in findings if finding.name == "batched")
    in_pieces = bool(served.engine.loop.scheduler.pieces.size)
    assert in_pieces == (served.fitted.seat not in STEADY)
    assert in_pieces == ("drafts" not in [finding.name for finding in findings])


class Failing:
    """A runner that computes nothing."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        raise ValueError("no room")


def test_a_full_batch_that_cannot_be_computed_is_told_with_what_to_lower(demo: Opened) -> None:
    failing = engine(Failing(demo.fitted.runner), demo.loaded.vocab)
    full = proof.filled(failing, [task(tuple(range(3, 40)), 4)], proof.Pace(1e-3, 1e-3))
    assert not full.ok and full.need == "4 answers at once, 256 tokens a step"
    assert full.have and full.mend == proof.SMALLER


def test_a_slow_model_is_given_fewer_tokens_for_it(demo: Opened) -> None:
    slow = proof.Pace(proof.SECONDS / 2 / 8, 1.0)  # so that 8 tokens of a prompt take half of the time
    full = proof.filled(engine(demo.fitted.runner, demo.loaded.vocab), [task(tuple(range(3, 40)), 4)], slow)
    assert full.ok and (full.need, full.have) == ("4 answers at once, 8 tokens a step", "4 at once, 8 a step")


def test_a_turn_tells_where_and_by_how_much() -> None:
    right = answer([5, 6], {5: -0.1, 7: -3.0}, {6: -0.7, 8: -0.75})
    other = answer([5, 8], {5: -0.1, 7: -3.0}, {6: -0.76, 8: -0.7})
    verdict = compare([right], [other])
    assert verdict.turns == [Turn(0, 1, 6, 8, pytest.approx(0.05))]
    assert verdict.drift == pytest.approx(0.06) and verdict.worst == (0, 1)


def test_what_comes_after_a_turn_is_of_another_text_and_not_compared() -> None:
    right = answer([5, 6], {5: -0.1}, {6: -0.7})
    other = answer([9, 6], {9: -0.1, 5: -0.1}, {6: -9.0})
    assert compare([right], [other]).drift == 0


def test_where_logprobs_change_and_no_token_the_place_is_told(demo: Opened) -> None:
    verdict = Verdict((), drift=2.0, worst=(2, 4))
    wrong, right = (
        proof.judged("batched", verdict, proof.Rule(drift, ties=False), demo.loaded.tokenizer, [Answer()])
        for drift in (0.01, 3.0)
    )
    assert not wrong.ok and wrong.have == "same, logprobs within 2e+00, the most at prompt 3, token 5"
    assert right.ok and right.have == "same, logprobs within 2e+00"


@pytest.mark.parametrize(
    ("rule", "ok", "mend"),
    [
        (proof.Rule(0.5, ties=True), True, proof.MEND),
        (proof.Rule(0.01, ties=True), False, proof.WILD),
        (proof.Rule(0.5, ties=False), False, proof.FAULT),
        (proof.Rule(0.0, ties=False), False, proof.FAULT),
    ],
)
def test_a_tie_that_turned_is_a_fault_where_it_must_not_turn(
    demo: Opened, rule: proof.Rule, ok: bool, mend: str
) -> None:
    verdict = Verdict([Turn(2, 4, 65, 66, 0.05)], drift=0.1)
    finding = proof.judged("batched", verdict, rule, demo.loaded.tokenizer, [Answer()])
    assert (finding.ok, finding.mend) == (ok, mend)
    assert "prompt 3, token 5: 65 " in finding.have and "a gap of 0.05 logits" in finding.have
