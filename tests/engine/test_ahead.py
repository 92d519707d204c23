"""Steps begun before the tokens of the last are known: nobody can tell from the answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Drawn, Sampler
from inference.engine.sequence import Task
from inference.model.batch import Batch
from inference.sampling import Sampling, Watermark, Window
from tests.engine.conftest import END, NAN, POISON, VOCAB, Box
from tests.walks.paged import PagedWitness

NUMBERS = ((POISON,), (NAN,))  # are not to be drawn
GREEDY = Sampling(greedy=True)
DRAWN = Sampling(temperature=2.0, banned=NUMBERS)
PROMPTS = ((4, 5, 6), (7, 8), (9, 10, 11, 12, 13), (14,))
LENGTH = 20


@dataclass
class Every:
    """A matcher that allows every token, and remembers which came."""

    taken: list[int] = field(default_factory=list)

    def allowed(self) -> None:
        return None

    def advance(self, token: int) -> None:
        self.taken.append(token)


class Served:
    """An engine over pages, driven step by step; `overlaps` as the runner has it."""

    def __init__(self, overlaps: bool, sampler: Sampler | None = None, drafts: int = 0, **shape: Any) -> None:
        self.runner = PagedWitness(**{"max_rows": 4, "area": 400, "context": 96} | shape, overlaps=overlaps)
        self.engine = Engine(
            self.runner,
            sampler or Sampler(VOCAB),
            max_batch_tokens=32,
            max_queued_tokens=10_000,
            drafts=drafts,
        )
        self.boxes: list[Box] = []
        self.ids: list[int] = []

    def submit(self, *tasks: Task) -> list[Box]:
        boxes = [Box() for _ in tasks]
        self.ids += self.engine.submit(tasks, boxes)
        self.boxes += boxes
        return boxes

    @torch.inference_mode()
    def step(self, count: int = 1) -> bool:
        busy = True
        for _ in range(count):
            busy = self.engine.step()
            self.engine.loop.seating.check()
        return busy

    def finish(self) -> "Served":
        for _ in range(500):
            if not self.step():
                return self
        raise AssertionError("still busy")

    @property
    def told(self) -> list[list[tuple[object, ...]]]:
        """All that was heard of each task, but for how long it waited."""
        return [
            [
                (r.ids, r.logprobs, r.tops, r.cached, r.prompt, r.reason, str(r.error or ""))
                for r in box.records
            ]
            for box in self.boxes
        ]


@pytest.fixture(autouse=True)
def unfailing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What fails early is planned as ever, and no answer tells: the log would."""
    yield
    assert not [record for record in caplog.get_records("call") if "begun early" in record.message]


def both(drive: Callable[[Served], object], **shape: Any) -> tuple[Served, Served]:
    """The same done to an engine that begins steps early, and to one that does not."""
    early, plain = Served(True, **shape), Served(False, **shape)
    for one in (early, plain):
        drive(one)
        one.finish()
    assert early.runner.early and not plain.runner.early
    return early, plain


def tasks(**options: Any) -> list[Task]:
    given = {"sampling": GREEDY, "ends": frozenset({END}), "max_tokens": LENGTH} | options
    return [Task(ids, seed=seed, **given) for seed, ids in enumerate(PROMPTS)]


# What answers are --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampling": DRAWN},
        {"sampling": replace(DRAWN, top_k=5, top_p=0.9, min_p=0.01)},
        {"logprobs": 3},
        {"logprobs": 2, "warped": True, "sampling": replace(DRAWN, temperature=0.7)},
        {"prompt_logprobs": 1},
        {"min_tokens": 12, "ends": frozenset(range(16))},
        {"ends": frozenset(range(8))},
        {"sampling": replace(GREEDY, bias={END: 3.0, 7: 2.0})},
        {"sampling": replace(DRAWN, allowed=frozenset(range(3, 12)))},
        {"sampling": replace(DRAWN, banned_first=frozenset(range(3, 12)))},
    ],
)
def test_answers_are_the_same(options: dict[str, Any]) -> None:
    early, plain = both(lambda one: one.submit(*tasks(**options)))
    assert early.told == plain.told


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": replace(GREEDY, repetition=1.5)},
        {"sampling": replace(DRAWN, repetition=1.5, order=("temperature", "repetition"))},
        {"sampling": replace(GREEDY, window=Window((3, 4), 1.4, 6))},
        {"sampling": replace(GREEDY, presence=1.0)},
        {"sampling": replace(GREEDY, frequency_share=1.0)},
        {"sampling": replace(GREEDY, no_repeat_ngram=2)},
        {"sampling": replace(GREEDY, banned=((7, 8),))},
        {"sampling": replace(GREEDY, watermark=Watermark())},
        {"matcher": Every()},
    ],
)
def test_nothing_is_begun_early_where_a_choice_depends_on_the_tokens_before(options: dict[str, Any]) -> None:
    one = Served(True)
    one.submit(tasks(**options)[0])
    one.submit(*tasks()[1:])
    while not one.boxes[0].ended:
        one.step()
        assert not one.runner.early
    one.finish()
    plain = Served(False)
    plain.submit(tasks(**options)[0], *tasks()[1:])
    assert one.told == plain.finish().told


def test_copies_of_a_prompt_draw_from_streams_of_their_own() -> None:
    copies = [Task((4, 5, 6), LENGTH, DRAWN, seed=seed) for seed in (1, 2, 3)]
    early, plain = both(lambda one: one.submit(*copies))
    assert early.told == plain.told
    assert len({tuple(box.ids) for box in early.boxes}) == 3


def test_prompts_that_come_in_pieces_and_one_after_the_other_change_nothing() -> None:
    def drive(one: Served) -> None:
        for turns, ids in enumerate((range(3, 28), range(4, 29), range(5, 29), (6, 7), range(3, 28))):
            one.submit(Task(tuple(ids) * 2, LENGTH + turns, DRAWN, seed=turns))
            one.step(turns)

    early, plain = both(drive)
    assert [box.ids for box in early.boxes] == [box.ids for box in plain.boxes]


def test_who_comes_waits_a_step_longer_at_most() -> None:
    def first(one: Served) -> int:
        one.submit(*tasks()[:2])
        one.step(5)
        (box,) = one.submit(tasks()[2])
        return next(turns for turns in range(9) if box.records or one.step() is None)

    assert first(Served(True)) <= first(Served(False)) + 1


# What was computed in vain -----------------------------------------------------------------------------


def test_nothing_follows_an_end() -> None:
    """The step that was under way when it came has another token for that row."""
    known = Served(False)
    known.submit(*tasks(ends=frozenset()))
    answers = [box.ids for box in known.finish().boxes]
    last = answers[1][6]
    early, plain = both(lambda one: one.submit(*(replace(task, ends=frozenset({last})) for task in tasks())))
    assert early.told == plain.told
    assert early.boxes[1].reason == "stop" and early.boxes[1].ids[-1] == last
    assert early.engine.stats().generated_tokens == sum(len(box.ids) for box in early.boxes)


@pytest.mark.parametrize("area", (48, 64, 400))
def test_those_that_leave_and_those_that_take_their_places_get_what_is_theirs(area: int) -> None:
    """Cancelled, preempted and ended while a step is under way, with memory for all of them or for few."""

    def drive(one: Served) -> None:
        one.submit(*tasks(), *tasks(sampling=DRAWN), *tasks(ends=frozenset(range(9))))
        for turn in range(30):
            one.step()
            running = one.engine.loop.scheduler.running
            if turn in (9, 17) and running:
                one.engine.loop.scheduler.preempt(running[0])
            if turn in (5, 13, 21):
                one.engine.cancel([one.ids[turn % 8]])

    early, plain = both(drive, area=area)
    for one, other in zip(early.boxes, plain.boxes, strict=True):
        shorter = min(len(one.ids), len(other.ids))
        assert one.ids[:shorter] == other.ids[:shorter]
        assert "cancelled" in (one.reason, other.reason) or one.ids == other.ids


def test_one_that_is_given_its_pages_again_but_another_row_gets_what_is_its() -> None:
    """Before its neighbour's: the rows of a step ascend."""

    def drive(one: Served) -> None:
        one.submit(*(Task((first,) * length, LENGTH, GREEDY) for first, length in ((7, 1), (8, 1), (9, 3))))
        one.step(2)
        one.engine.cancel(one.ids[:1])
        one.step(4)
        one.engine.loop.scheduler.preempt(one.engine.loop.scheduler.running[-1])

    early, plain = both(drive)
    assert [box.ids for box in early.boxes[1:]] == [box.ids for box in plain.boxes[1:]]


def test_a_prefix_is_found_by_what_an_answer_was_and_not_by_what_came_behind_it() -> None:
    early, plain = Served(True), Served(False)
    for one in (early, plain):
        one.submit(*tasks(max_tokens=13))
        one.finish()
        one.submit(
            *(Task((*ids, *box.ids, 3), 8, GREEDY) for ids, box in zip(PROMPTS, one.boxes, strict=True))
        )
        one.finish()
    assert early.runner.early and early.told == plain.told


def test_what_is_no_number_fails_its_own_request_alone() -> None:
    """It is chosen, and taken into the step begun behind, where it spoils its row."""
    wild = Task((4, 5), LENGTH, replace(GREEDY, bias={NAN: 100.0}))
    early, plain = both(lambda one: one.submit(*tasks(ends=frozenset())[:3], wild))
    assert early.told == plain.told
    assert "not a number" in str(early.boxes[3].records[-1].error)


def test_what_is_no_number_and_was_computed_in_vain_spoils_no_page_for_others() -> None:
    """Its answer ends with it: the step behind writes it to a page that others are given."""
    wild = Task((4, 5, 6, 7, 8, 9), LENGTH, replace(GREEDY, bias={NAN: 100.0}), ends=frozenset({NAN}))

    def drive(one: Served) -> None:
        one.submit(tasks()[0], wild, wild, wild)
        for _ in range(6):
            one.step()
            one.submit(*tasks(max_tokens=5, ends=frozenset())[:2], wild)

    early, plain = both(drive, area=48)
    assert [box.ids for box in early.boxes] == [box.ids for box in plain.boxes]
    assert {box.reason for box in early.boxes} == {"length", "stop"}


def test_a_sequence_at_its_last_token_or_at_a_full_row_takes_no_other() -> None:
    early, plain = both(lambda one: one.submit(*tasks(max_tokens=200, ends=frozenset())), context=32)
    assert early.told == plain.told and {box.reason for box in early.boxes} == {"length"}


def test_where_no_page_is_left_the_next_step_is_planned_first() -> None:
    early, plain = both(lambda one: one.submit(*tasks(max_tokens=30, ends=frozenset())), area=36)
    assert [box.ids for box in early.boxes] == [box.ids for box in plain.boxes]
    assert early.engine.stats().preemptions


# What is begun when ------------------------------------------------------------------------------------


class Diary(Sampler):
    """Notes when tokens are asked for, in the list where the runner notes its steps."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.events: list[str] = []

    def fault(self, batch: Batch, moved: bool) -> None:
        if not moved:
            self.events.append("begun early" if batch.coming is not None else "begun")

    def draw(self, logits: torch.Tensor, sequences: Any) -> Drawn:
        ids, choices = super().draw(logits, sequences)
        return Drawn(ids, lambda: (self.events.append("read"), choices())[1])


def test_a_step_is_under_way_while_the_host_reads_the_last_one_and_plans() -> None:
    diary = Diary()
    one = Served(True, diary)
    one.runner.fault = diary.fault
    one.submit(*tasks(ends=frozenset(), max_tokens=4))
    one.finish()
    assert diary.events == [
        "begun",
        "begun early",
        "read",
        "begun early",
        "read",
        "begun early",
        "read",
        "read",
    ]


def test_a_step_that_cannot_be_begun_early_is_planned_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    one, plain = Served(True), Served(False)

    def fault(batch: Batch, moved: bool) -> None:
        if batch.coming is not None:
            raise torch.OutOfMemoryError("only early")

    one.runner.fault = fault
    for each in (one, plain):
        each.submit(*tasks())
        each.finish()
    assert one.told == plain.told and not one.engine.stats().shortages
    caplog.clear()
    assert one.runner.early == 0 and one.engine.loop.stepper.failed == 3


def test_drafts_that_are_likely_come_before_steps_begun_early() -> None:
    repeating = [Task((5, 6, 7) * 6, 40, GREEDY)]
    early, plain = both(lambda one: one.submit(*repeating), drafts=6)
    assert early.boxes[0].ids == plain.boxes[0].ids
    assert early.engine.stats().accepted_tokens > 10
