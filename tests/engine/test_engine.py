"""The engine as its users meet it: tasks in, records out, from any thread."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inference.engine.engine import Engine
from inference.engine.sequence import Score, Task
from inference.errors import BadRequest, Internal, Overloaded, TooLong, Unavailable
from inference.model.batch import Clear
from tests.engine.conftest import END, NAN, POISON, Bench, Box, FakeRunner, GreedySampler

Make = Callable[..., Bench]
LONG = [7] * 60
ENDS = frozenset({END})
PAST = time.monotonic() - 1


# What a task yields ------------------------------------------------------------------------------------


def test_an_answer_is_what_the_runner_says_alone(bench: Make) -> None:
    one = bench()
    box = one.submit([3, 4, 5], 8)
    one.finish()
    assert box.ids == one.alone([3, 4, 5], 8) and box.reason == "length" and len(box.ids) == 8


def test_one_of_its_ends_stops_an_answer_and_is_part_of_it(bench: Make) -> None:
    one = bench()
    third = one.alone([3, 4, 5], 8)[2]
    box = one.submit([3, 4, 5], 8, ends=frozenset({third}))
    one.finish()
    assert box.reason == "stop" and box.ids[-1] == third and third not in box.ids[:-1]


def test_an_answer_ends_where_its_row_is_full(bench: Make) -> None:
    one = bench(context=64)
    box = one.submit(LONG, 100)
    one.finish()
    assert box.reason == "length" and len(box.ids) == 4


def test_the_first_record_tells_how_much_of_the_prompt_was_cached(bench: Make) -> None:
    one = bench()
    first = one.submit(LONG[:40], 3)
    one.finish()
    second = one.submit(LONG[:40], 3)
    one.finish()
    assert [record.cached for record in first.records] == [0, None, None]
    assert [record.cached for record in second.records] == [39, None, None]


def test_without_reuse_every_prompt_is_computed_whole() -> None:
    runner, boxes = FakeRunner(), [Box(), Box(), Box()]
    engine = Engine(runner, GreedySampler(), max_batch_tokens=32, max_queued_tokens=10_000, reuse=False)
    for group in (boxes[:2], boxes[2:]):
        engine.submit([Task(tuple(LONG[:40]), 3)] * len(group), group)
        while engine.step():
            pass
    assert [box.records[0].cached for box in boxes] == [0, 0, 0]
    assert boxes[0].ids == boxes[1].ids == boxes[2].ids


def test_logprobs_come_with_each_token_if_asked(bench: Make) -> None:
    one = bench()
    with_them, without = one.submit([3, 4], 3, logprobs=0), one.submit([3, 4], 3)
    one.finish()
    assert all(len(record.logprobs) == len(record.tops) == 1 for record in with_them.records)
    assert all(record.logprobs == record.tops == () for record in without.records)


def test_a_prompt_can_be_scored_without_an_answer(bench: Make) -> None:
    one = bench(budget=16)
    box = one.submit(LONG[:50], 0, prompt_logprobs=0)
    one.finish()
    (record,) = box.records
    assert record.reason == "length" and record.ids == ()
    assert len(record.prompt) == 50 and record.prompt[0] == Score()
    assert all(isinstance(score.logprob, float) for score in record.prompt[1:])


def test_a_preempted_prompt_is_scored_once(bench: Make) -> None:
    whole, cut = bench(budget=16), bench(budget=16)
    boxes = [one.submit(range(1, 29), 2, prompt_logprobs=0) for one in (whole, cut)]
    cut.step()
    cut.engine.loop.scheduler.preempt(cut.engine.loop.scheduler.running[0])
    whole.finish()
    cut.finish()
    first, second = (box.records[0].prompt for box in boxes)
    assert first == second and len(first) == 28


def test_an_encoders_answer_begins_with_the_decoders_start(bench: Make) -> None:
    one = bench(encodes=True, start_ids=(1, 2))
    box = one.submit(LONG * 3, 5)
    one.finish()
    assert box.ids == one.alone(LONG * 3, 5) and one.runner.batches[0].ids == [1, 2]


def test_many_answers_to_one_prompt_compute_it_once(bench: Make) -> None:
    one = bench(budget=1000, max_rows=8, area=8 * 64)
    boxes = [one.submit(LONG[:50], 5) for _ in range(8)]
    one.finish()
    assert [box.records[0].cached for box in boxes] == [0] + [49] * 7
    assert one.engine.stats().cached_tokens == 7 * 49


def test_a_preempted_sequence_keeps_its_text(bench: Make) -> None:
    one = bench()
    boxes = [one.submit([n, 5], 20) for n in range(3, 6)]
    for _ in range(5):
        one.step()
    one.engine.loop.scheduler.preempt(one.engine.loop.scheduler.running[1])
    one.finish()
    assert [box.ids for box in boxes] == [one.alone([n, 5], 20) for n in range(3, 6)]
    assert [record.cached for record in boxes[1].records] == [0] + [None] * 19


# How it ends early -------------------------------------------------------------------------------------


def queued(one: Bench, box: Box, **options: object) -> int:
    for _ in range(one.runner.max_rows):
        one.submit([3], 50)
    one.step()
    return one.submit_to(box, [4], 50, **options)


def prefilling(one: Bench, box: Box, **options: object) -> int:
    id = one.submit_to(box, LONG, 3, **options)
    one.step()
    return id


def decoding(one: Bench, box: Box, **options: object) -> int:
    id = one.submit_to(box, [4], 50, **options)
    one.step()
    one.step()
    return id


STATES = pytest.mark.parametrize("reach", (queued, prefilling, decoding))


@STATES
def test_a_cancelled_sequence_ends_within_a_step(bench: Make, reach: Callable[..., int]) -> None:
    one, box = bench(budget=16), Box()
    one.engine.cancel([reach(one, box)])
    one.step()
    assert box.reason == "cancelled" and box.records[-1].ids == ()


@STATES
def test_a_sequence_past_its_deadline_ends_within_a_step(bench: Make, reach: Callable[..., int]) -> None:
    one, box = bench(budget=16), Box()
    deadline = time.monotonic() + 0.1
    reach(one, box, deadline=deadline)
    time.sleep(max(0.0, deadline - time.monotonic()))
    one.step()
    assert box.reason == "deadline"


def test_a_task_whose_deadline_has_passed_computes_nothing(bench: Make) -> None:
    one = bench()
    box = one.submit([3], 5, deadline=PAST)
    one.finish()
    assert box.reason == "deadline" and not one.runner.batches


def test_cancelling_twice_or_after_the_end_does_nothing(bench: Make) -> None:
    one, box = bench(), Box()
    id = one.submit_to(box, [3], 2)
    one.finish()
    one.engine.cancel([id, id, 999])
    one.step()
    assert box.reason == "length" and one.engine.stats().ends["cancelled"] == 0


# What fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", (POISON, NAN))
@pytest.mark.parametrize("resumes", (True, False))
def test_a_sequence_that_fails_leaves_its_neighbours_untouched(bench: Make, bad: int, resumes: bool) -> None:
    one = bench(resumes=resumes)
    boxes = [one.submit([n, 5], 12) for n in (3, 4)]
    for _ in range(3):
        one.step()
    failing = one.submit([6, bad], 12)
    one.finish()
    assert isinstance(failing.records[-1].error, Internal)
    assert [box.ids for box in boxes] == [one.alone([n, 5], 12) for n in (3, 4)]
    assert one.engine.stats().ends["error"] == 1 and not one.engine.reason


def test_what_a_failed_sequence_left_is_not_used_again(bench: Make) -> None:
    one = bench(budget=16)
    one.submit([*range(1, 29), NAN], 5)
    one.finish()
    assert not one.engine.loop.seating.kept


@pytest.mark.parametrize("most", (0, 5))
def test_a_prompt_that_comes_out_as_no_numbers_fails_with_its_first_part(bench: Make, most: int) -> None:
    one = bench(budget=16)
    box = one.submit([NAN, *range(1, 29)], most)
    one.step()
    assert isinstance(box.records[-1].error, Internal)
    assert any(isinstance(move, Clear) for move in one.engine.loop.seating.moves)


def test_failures_in_a_row_are_counted_until_one_goes_well(bench: Make) -> None:
    one = bench()
    for _ in range(3):
        one.submit([POISON], 2)
        one.finish()
    assert one.engine.stats().failing == 3
    one.submit([3], 2)
    one.finish()
    assert one.engine.stats().failing == 0


def test_one_too_large_for_the_memory_ends_and_the_next_is_served(bench: Make) -> None:
    one = bench()

    def fault(batch: object, moved: bool) -> None:
        if 29 in batch.ids:
            raise MemoryError

    one.runner.fault = fault
    large, small = one.submit([29] * 10, 5), one.submit([3], 5)
    one.finish()
    assert "too little memory" in large.records[-1].error.message
    assert small.ids == one.alone([3], 5)


def test_an_outlet_that_fails_is_its_own_loss(bench: Make) -> None:
    class Broken:
        def put(self, record: object) -> None:
            raise OSError("gone")

    one = bench()
    one.engine.submit([Task((3,), 5)], [Broken()])
    box = one.submit([3], 5)
    one.finish()
    assert len(box.ids) == 5


# What is refused ---------------------------------------------------------------------------------------


def test_an_empty_prompt_is_refused(bench: Make) -> None:
    with pytest.raises(BadRequest, match="at least one token"):
        bench().submit([])


def test_a_prompt_longer_than_the_context_is_refused_unless_an_encoder_reads_it(bench: Make) -> None:
    with pytest.raises(TooLong):
        bench(context=64).submit([3] * 65)
    bench(context=64, encodes=True).submit([3] * 65)


def test_tasks_are_queued_all_or_none(bench: Make) -> None:
    one = bench(waiting=10)
    one.submit([3] * 5)
    with pytest.raises(Overloaded):
        one.engine.submit([Task((3, 4), 5), Task((3,) * 8, 5)], [Box(), Box()])
    assert one.engine.stats().waiting_tokens == 5


def test_what_has_begun_waits_no_longer(bench: Make) -> None:
    one = bench(waiting=10)
    one.submit([3] * 10)
    one.step()
    assert one.engine.stats().waiting_tokens == 0
    one.submit([3] * 10)


# Delivery and numbers ----------------------------------------------------------------------------------


def test_the_records_of_a_step_go_out_in_one_call(bench: Make) -> None:
    one, posted = bench(), []
    one.engine.deliver_with(posted.append)
    boxes = [one.submit([n], 5) for n in range(3, 6)]
    one.step()
    assert len(posted) == 1 and not any(box.records for box in boxes)
    posted[0]()
    assert all(len(box.records) == 1 for box in boxes)


def test_a_closed_event_loop_does_not_stop_the_engine(bench: Make) -> None:
    one = bench()

    def closed(callback: object) -> None:
        raise RuntimeError("event loop is closed")

    one.engine.deliver_with(closed)
    one.submit([3], 3)
    one.finish()
    assert one.engine.stats().generated_tokens == 3


def test_the_numbers_add_up(bench: Make) -> None:
    one = bench()
    for n in range(3, 9):
        one.submit([n] * 10, 4)
    one.step()
    stats = one.engine.stats()
    assert (stats.running, stats.waiting, stats.waiting_tokens) == (4, 2, 20)
    one.finish()
    stats = one.engine.stats()
    assert (stats.running, stats.waiting, stats.generated_tokens, stats.prompt_tokens) == (0, 0, 24, 60)
    assert stats.ends["length"] == 6 and stats.steps > 4 and stats.step_seconds > 0
    assert (stats.held, stats.room) == (0, 256)


# Threads -----------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeRunner(), GreedySampler(), max_batch_tokens=32, max_queued_tokens=10_000)
    engine.start()
    yield engine
    engine.stop()


def wait(condition: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.001)


def test_many_threads_submit_and_cancel(engine: Engine) -> None:
    bench, kept, cancelled = Bench(FakeRunner()), [], []

    def crowd(seed: int) -> None:
        for n in range(15):
            prompt = [seed + 3, n + 1, 5]
            boxes = [Box(), Box()]
            ids = engine.submit([Task(tuple(prompt), 12), Task(tuple(prompt), 50)], boxes)
            engine.cancel(ids[1:])
            kept.append((prompt, boxes[0]))
            cancelled.append(boxes[1])

    threads = [threading.Thread(target=crowd, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait(lambda: all(box.ended for _, box in kept) and all(box.ended for box in cancelled))
    assert all(box.ids == bench.alone(prompt, 12) for prompt, box in kept)
    assert all(box.reason in ("cancelled", "length") for box in cancelled)
    assert engine.stats().waiting_tokens == 0 and not engine.reason


def test_an_idle_engine_takes_no_steps(engine: Engine) -> None:
    box = Box()
    engine.submit([Task((3,), 2)], [box])
    wait(lambda: box.ended)
    steps = engine.stats().steps
    time.sleep(0.05)
    assert engine.stats().steps == steps


def test_stopping_ends_everyone_and_takes_no_more(engine: Engine) -> None:
    engine.loop.runner.fault = lambda batch, moved: time.sleep(0.01)
    boxes = [Box() for _ in range(8)]
    engine.submit([Task((3,), 60)] * 8, boxes)
    engine.stop()
    engine.stop()
    assert all(isinstance(box.records[-1].error, Unavailable) for box in boxes)
    assert engine.reason
    with pytest.raises(Unavailable, match="shutting down"):
        engine.submit([Task((3,), 5)], [Box()])


def test_an_engine_never_started_can_be_stopped(bench: Make) -> None:
    one = bench()
    box = one.submit([3])
    one.engine.stop()
    assert isinstance(box.records[-1].error, Unavailable)


def test_a_dead_engine_says_so_and_leaves_nobody_waiting(engine: Engine) -> None:
    boxes = [Box(), Box()]
    engine.submit([Task((3,), 60)], boxes[:1])
    engine.submit([Task((3,), 60, ends=None)], boxes[1:])
    wait(lambda: engine.reason and all(box.ended for box in boxes))
    assert all(isinstance(box.records[-1].error, Internal) for box in boxes)
    assert "restarted" in engine.reason
