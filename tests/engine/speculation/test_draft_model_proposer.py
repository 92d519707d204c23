"""A draft model writes as many drafts as pay, by the times that are measured; here a clock sets them."""

from dataclasses import dataclass

import pytest

from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.sequence import Sequence
from inference.engine.speculation import draft_model_proposer
from inference.engine.speculation.draft_model_proposer import STEPS_AFTER_FAILURE, DraftModelProposer
from tests.engine.generation_requests import make_request

MOST, STEPS = 4, 300
RIGHT, WRONG = 5, 6  # every token of the answer is RIGHT


@dataclass
class FakeDraftModel:
    """Writes the same token again and again; step_s seconds each."""

    token_id: int
    step_s: float | None = None
    fails: bool = False

    def propose(self, num_drafts: dict[Sequence, int], token_budget: int) -> None:
        if self.fails:
            raise MemoryError
        for sequence, count in num_drafts.items():
            sequence.draft_token_ids = [self.token_id] * count

    def keep_only(self, sequences: object) -> None:
        pass

    def reset(self) -> None:
        pass


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


def run(monkeypatch: pytest.MonkeyPatch, model: FakeDraftModel, draft_cost: float = 0.0) -> list[int]:
    """The numbers of drafts in STEPS steps of one answer, each of a second and draft_cost a draft."""
    clock = Clock()
    monkeypatch.setattr(draft_model_proposer, "time", clock)
    manager = ContiguousKVCacheManager(
        max_sequences=2, context=4096, kv_capacity=8192, page_size=16, prefix_caching=False
    )
    manager.num_columns = 4096
    sequence = Sequence(0, make_request([1, 2, 3], 4000), None, [1, 2, 3])
    sequence.token_ids.append(RIGHT)
    proposer = DraftModelProposer(model, manager, MOST)
    counts = []
    for _ in range(STEPS):
        sequence.num_computed_tokens = len(sequence.token_ids) - 1
        counts.append(proposer.propose([(sequence, 1)], 512))
        clock.now += 1 + draft_cost * counts[-1]
        num_right = counts[-1] if model.token_id == RIGHT else 0
        sequence.token_ids += [RIGHT] * (num_right + 1)
    return counts


def test_right_drafts_of_a_fast_model_are_as_many_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = run(monkeypatch, FakeDraftModel(RIGHT, step_s=0.05))
    assert counts[-60:].count(MOST) > 55


def test_wrong_drafts_end_but_for_single_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = run(monkeypatch, FakeDraftModel(WRONG, step_s=0.05))
    assert counts[0] > 0 and counts[40:].count(0) > 0.97 * len(counts[40:])


@pytest.mark.parametrize(("step_s", "draft_cost"), [(1.2, 0.0), (0.05, 2.0)])
def test_right_drafts_end_where_one_of_the_models_is_too_slow(
    monkeypatch: pytest.MonkeyPatch, step_s: float, draft_cost: float
) -> None:
    counts = run(monkeypatch, FakeDraftModel(RIGHT, step_s), draft_cost)
    assert counts[130:].count(0) > 0.9 * len(counts[130:])


def test_a_model_that_fails_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeDraftModel(RIGHT, step_s=0.05, fails=True)
    assert not any(run(monkeypatch, model)) and STEPS < STEPS_AFTER_FAILURE
