"""Drafts right and wrong, in every step: no answer changes, and no token is told that would not have been."""

import time
from collections.abc import Sequence as Several

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Choice, Sampler
from inference.engine.sequence import Sequence, Task
from inference.engine.speculate import room
from inference.engine.step import agreed
from inference.sampling import Sampling
from tests.engine.conftest import END, NAN, POISON, Bench, Box, FakeRunner, logits_after
from tests.engine.prophet import Prophet, Told
from tests.engine.test_sampling import KINDS


def bench(**shape: object) -> Bench:
    made = Bench(FakeRunner(**shape))
    made.engine.loop.speculator = Prophet(made.engine.loop.seating, {})
    return made


def joined(box: Box) -> tuple[list[object], ...]:
    fields = ("ids", "logprobs", "tops")
    return tuple([item for record in box.records for item in getattr(record, name)] for name in fields)


def test_records_hold_several_tokens_and_join_to_what_they_were() -> None:
    plain, drafted = Bench(FakeRunner()), bench()
    boxes = [one.submit([5, 6, 7], 30, logprobs=0) for one in (plain, drafted)]
    assert drafted.finish() < plain.finish()
    assert joined(boxes[0]) == joined(boxes[1])
    assert max(len(record.ids) for record in boxes[1].records) > 2
    assert boxes[1].reason == "length" and len(boxes[1].ids) == 30


def test_nothing_is_told_behind_an_end_among_the_drafts() -> None:
    for end in range(1, 30):
        one = bench()
        right = one.alone([5, 6, 7], 30, ends=frozenset({end}))
        box = one.submit([5, 6, 7], 30, ends=frozenset({end}))
        one.engine.loop.speculator.answers[(5, 6, 7), 30] = one.alone([5, 6, 7], 30)
        one.finish()
        assert box.ids == right and box.reason == ("stop" if end in right else "length")


def test_what_is_kept_of_a_drafted_row_is_right() -> None:
    one = bench()
    first = one.submit(range(1, 20), 20)
    one.finish()
    prompt = [*range(1, 20), *first.ids]
    again = one.submit(prompt, 5)
    one.finish()
    assert again.records[0].cached == len(prompt) - 1
    assert again.ids == one.alone(prompt, 5)


def test_cancel_and_deadline_find_a_drafted_sequence() -> None:
    one = bench()
    boxes = Box(), Box()
    cancelled = one.submit_to(boxes[0], [5, 6, 7], 50)
    one.submit_to(boxes[1], [8, 9], 50, deadline=time.monotonic() + 0.01)
    one.step(), one.step()
    one.engine.cancel([cancelled])
    time.sleep(0.02)
    one.finish()
    assert [box.reason for box in boxes] == ["cancelled", "deadline"]
    assert boxes[0].ids == one.alone([5, 6, 7], 50)[: len(boxes[0].ids)]


@pytest.mark.parametrize("shape", ({"resumes": False}, {"encodes": True}), ids=str)
def test_models_whose_rows_begin_whole_get_no_drafts(shape: dict[str, bool]) -> None:
    one = Bench(FakeRunner(**shape), drafts=8)
    box = one.submit([1, 2, 3, 4] * 4, 20)
    one.finish()
    assert len(box.ids) == 20 and one.engine.stats().drafted_tokens == 0


class Fragile(FakeRunner):
    """Where a row's last two tokens are 7, its logits are not numbers, and stay so until it is cleared."""

    def _logits(self, batch: object) -> torch.Tensor:
        logits, place = super()._logits(batch), 0
        for index, row in enumerate(batch.rows):
            wanted = [at for at in batch.want if batch.starts[index] <= at < batch.starts[index + 1]]
            for at in wanted:
                end = batch.cached[index] + at - batch.starts[index] + 1
                if NAN in self.memory[row] or self.memory[row][end - 2 : end] == [7, 7]:
                    logits[place] = float("nan")
                    self.memory[row][-1] = NAN
                place += 1
        return logits


def test_a_draft_that_spoils_its_row_harms_nobody() -> None:
    one = Bench(Fragile())
    prophet = one.engine.loop.speculator = Prophet(one.engine.loop.seating, {})
    prophet.guess = lambda sequence: [7, 7][: room(sequence, one.engine.loop.seating)]
    box = one.submit([5, 6, 8], 12)
    one.finish()
    assert 7 not in box.ids and box.ids == one.alone([5, 6, 8], 12)
    assert one.engine.stats().preemptions == 5 and one.engine.failing == 0
    after = one.submit([9, 8], 4)
    one.finish()
    assert after.ids == one.alone([9, 8], 4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_sampling_is_token_for_token_what_it_is_without_drafts(kind: str) -> None:
    plain = sampled([kind], {})
    drafted = sampled([kind], plain)
    assert joined(drafted[kind]) == joined(plain[kind])
    assert len(drafted[kind].records) < len(plain[kind].records)


def test_kinds_of_sampling_keep_their_drafts_apart() -> None:
    plain = sampled(list(KINDS), {})
    together = sampled(list(KINDS), plain)
    assert all(joined(together[kind]) == joined(plain[kind]) for kind in KINDS)


def sampled(kinds: list[str], known: dict[str, Box]) -> dict[str, Box]:
    """The answers to one prompt, with drafts where these are known."""
    runner, ends = FakeRunner(max_rows=16, area=16 * 64), frozenset({9, END})
    engine = Engine(runner, Sampler(runner.vocab), max_batch_tokens=64, max_queued_tokens=10_000)
    if known:
        answers = {list(KINDS).index(kind): box.ids for kind, box in known.items()}
        engine.loop.speculator = Told(engine.loop.seating, answers)
    boxes = {kind: Box() for kind in kinds}
    tasks = [
        Task((3, 4, 5), 24, KINDS[kind], 15, ends, seed=list(KINDS).index(kind), logprobs=2, warped=True)
        for kind in kinds
    ]
    engine.submit(tasks, list(boxes.values()))
    with torch.inference_mode():
        while engine.step():
            pass
    return boxes


def test_a_drafted_token_is_drawn_from_its_distribution() -> None:
    """The draft is always the most probable token; the ranks of those told are what their probabilities say,
    by a chi-square test."""
    draws, heat = 500, 4.0
    runner = FakeRunner(max_rows=32, context=16, area=512)
    engine = Engine(runner, Sampler(runner.vocab), max_batch_tokens=64, max_queued_tokens=100_000)
    prophet = engine.loop.speculator = Prophet(engine.loop.seating, {})
    prophet.guess = lambda sequence: [int(torch.tensor(logits_after(sequence.tokens)).argmax())]
    boxes = [Box() for _ in range(draws)]
    sampling = Sampling(temperature=heat, banned=((POISON,), (NAN,)))
    engine.submit([Task((3, 4), 3, sampling, seed=seed) for seed in range(draws)], boxes)
    with torch.inference_mode():
        while engine.step():
            pass
    logits = torch.tensor([logits_after([3, 4, box.ids[0]])[:POISON] for box in boxes])
    probs = (logits / heat).softmax(-1)
    ranks = torch.tensor([int((p > p[box.ids[1]]).sum()) for p, box in zip(probs, boxes, strict=True)])
    expected = probs.sort(descending=True).values.sum(0)
    likely = expected > 5
    chi = ((ranks.bincount(minlength=POISON) - expected)[likely] ** 2 / expected[likely]).sum()
    assert 0 < engine.stats().accepted_tokens < engine.stats().drafted_tokens
    assert likely.sum() > 10 and chi < 2 * likely.sum(), chi


@pytest.mark.parametrize(
    ("drafts", "chosen", "held"),
    (
        ([], [5], [5]),
        ([5, 6], [5, 6, 7], [5, 6, 7]),
        ([5, 6], [5, 8, 7], [5, 8]),
        ([5, 6], [8, 6, 7], [8]),
        ([5, 0, 6], [5, 0, 6, 7], [5, 0]),
        ([5, 6], [5, -1, -1], [5]),
        ([5, 6], [-1, -1, -1], [-1]),
        ([], [], []),
    ),
)
def test_choices_hold_as_long_as_every_draft_before_them_is_right(
    drafts: Several[int], chosen: Several[int], held: Several[int]
) -> None:
    one = Sequence(0, Task((1,), 9, ends=frozenset({0})), None, [1])
    one.drafts = list(drafts)
    assert [choice.id for choice in agreed([Choice(id) for id in chosen], one)] == list(held)
