"""Requests in the background: answers hardly wait for them, and they get what the answers leave."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from inference.model.batch import Batch
from tests.engine.conftest import Bench, RecordingSink
from tests.engine.generation_requests import make_request
from tests.engine.paged_bench import LENGTH, PROMPTS, PagedBench, make_requests
from tests.fakes.stepped_clock import SteppedClock

MakeBench = Callable[..., Bench]

SHAPES = ({}, {"chunked_prefill": False}, {"encoder_decoder": True})
PROMPT = tuple(range(3, 15))


def background_prompt(index: int) -> tuple[int, ...]:
    return (4 + index % 20, *PROMPT)


def submit_background(bench: Bench, count: int, max_tokens: int = 8) -> list[RecordingSink]:
    return [bench.submit(background_prompt(index), max_tokens, in_background=True) for index in range(count)]


def check_answers(bench: Bench, sinks: list[RecordingSink], max_tokens: int = 8) -> None:
    for index, sink in enumerate(sinks):
        assert sink.token_ids == bench.expected_ids(background_prompt(index), max_tokens)


@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_answered_alone_and_with_others(make_bench: MakeBench, shape: dict[str, bool]) -> None:
    bench = make_bench(16, **shape)
    sinks = submit_background(bench, 6)
    bench.step()
    answer_sink = bench.submit(PROMPT, 30)
    bench.run_until_idle()
    check_answers(bench, sinks)
    assert answer_sink.token_ids == bench.expected_ids(PROMPT, 30)


def test_they_take_a_tenth_of_the_time_of_an_answer(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()

    def take_a_second(batch: Batch, moved: bool) -> None:
        clock.now += moved

    bench = make_bench(16, on_forward=take_a_second)
    bench.probe.set_clock(monkeypatch, clock)
    answer_sink = bench.submit(PROMPT, 41)
    bench.step()
    sinks = submit_background(bench, 2, max_tokens=100)
    bench.runner.batches.clear()
    while not answer_sink.has_ended:
        bench.step()
    num_rows = [len(batch.rows) for batch in bench.runner.batches]
    assert len(num_rows) == 40 and sum(count > 1 for count in num_rows) == 4
    bench.run_until_idle()
    check_answers(bench, sinks, 100)


def test_the_first_step_of_an_answer_is_its_own(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()

    def take_a_second(batch: Batch, moved: bool) -> None:
        clock.now += moved

    bench = make_bench(16, on_forward=take_a_second)
    bench.probe.set_clock(monkeypatch, clock)
    sinks = submit_background(bench, 3, max_tokens=20)
    for _ in range(2):
        bench.step()
    bench.runner.batches.clear()
    bench.submit(PROMPT, 2)
    bench.step()
    assert [len(batch.rows) for batch in bench.runner.batches] == [1]
    bench.run_until_idle()
    check_answers(bench, sinks, 20)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_comes_before_those_that_wait(make_bench: MakeBench, shape: dict[str, bool]) -> None:
    bench = make_bench(16, max_sequences=4, **shape)
    sinks = submit_background(bench, 40, max_tokens=20)
    for _ in range(3):
        bench.step()
    answer_sink = bench.submit(PROMPT, 4)
    for _ in range(12):
        bench.step()
    assert answer_sink.has_ended
    bench.run_until_idle(5_000)
    check_answers(bench, sinks, 20)


def test_they_are_answered_while_answers_keep_coming(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()

    def take_a_second(batch: Batch, moved: bool) -> None:
        clock.now += moved

    bench = make_bench(16, on_forward=take_a_second)
    bench.probe.set_clock(monkeypatch, clock)
    sinks = submit_background(bench, 2, max_tokens=4)
    for step in range(400):
        if step % 3 == 0:
            bench.submit((4, 5, 6 + step % 20), 8)
        bench.step()
    check_answers(bench, sinks, 4)


def test_an_answer_takes_a_row_of_theirs(make_bench: MakeBench) -> None:
    bench = make_bench(64, max_sequences=1)
    sinks = submit_background(bench, 2, max_tokens=40)
    bench.step()
    answer_sink = bench.submit(PROMPT, 4)
    for _ in range(8):
        bench.step()
    assert answer_sink.has_ended and not any(sink.has_ended for sink in sinks)
    assert bench.engine.stats().preemptions == 1
    bench.run_until_idle()
    check_answers(bench, sinks, 40)


@pytest.mark.parametrize("overlaps", [False, True])
def test_an_answer_takes_their_memory(overlaps: bool) -> None:
    bench = PagedBench(overlaps, max_sequences=16, kv_capacity=100, context=96)
    background = make_requests(in_background=True, max_tokens=60, stop_token_ids=())[:3]
    bench.submit(*background)
    bench.step(12)
    (answer_sink,) = bench.submit(make_requests(max_tokens=4, stop_token_ids=())[3])
    long_prompt = make_requests(max_tokens=4, stop_token_ids=())[0]
    long_sinks = bench.submit(*[long_prompt] * 6)
    bench.step(40)
    assert answer_sink.has_ended and all(sink.has_ended for sink in long_sinks)
    bench.run_until_idle()
    assert [len(sink.token_ids) for sink in bench.sinks[:3]] == [60] * 3


@pytest.mark.parametrize("overlaps", [False, True])
def test_pauses_change_no_answer(overlaps: bool) -> None:
    """Also where steps overlap, so that a paused sequence has a token that the host does not know yet."""
    alone = PagedBench(overlaps)
    alone.submit(*make_requests(stop_token_ids=()))
    alone.run_until_idle()
    mixed = PagedBench(overlaps)
    mixed.submit(*make_requests(stop_token_ids=(), in_background=True)[:2])
    mixed.step(3)
    mixed.submit(*make_requests(stop_token_ids=())[2:])
    mixed.run_until_idle()
    assert [sink.token_ids for sink in mixed.sinks] == [sink.token_ids for sink in alone.sinks]
    assert len(mixed.sinks) == len(PROMPTS) and len(mixed.sinks[0].token_ids) == LENGTH


def test_their_prompts_do_not_count_towards_the_queue_limit(make_bench: MakeBench) -> None:
    bench = make_bench(8, max_queued_tokens=20)
    sinks = submit_background(bench, 30)
    answer_sink = bench.submit(PROMPT, 2)
    assert bench.engine.stats().waiting_tokens == len(PROMPT)
    bench.run_until_idle(5_000)
    check_answers(bench, sinks)
    assert answer_sink.token_ids == bench.expected_ids(PROMPT, 2)


def test_their_prefixes_are_reused_and_counted(make_bench: MakeBench) -> None:
    bench = make_bench(64)
    prompt = tuple(range(3, 29)) * 2
    bench.submit(prompt, 1, in_background=True)
    bench.run_until_idle()
    sink = bench.submit(prompt, 1, in_background=True)
    bench.run_until_idle()
    assert sink.outputs[0].num_cached_tokens > 0


def test_inputs_in_the_background_come_behind_other_inputs(make_bench: MakeBench) -> None:
    bench = make_bench(16, max_sequences=4)
    slow_sinks, sinks = [RecordingSink() for _ in range(20)], [RecordingSink()]
    request = make_request(PROMPT, 0)
    bench.engine.submit_pooling([replace(request, in_background=True)] * 20, slow_sinks)
    for _ in range(3):
        bench.step()
    bench.engine.submit_pooling([request], sinks)
    for _ in range(3):
        bench.step()
    assert sinks[0].has_ended and not slow_sinks[-1].has_ended
    bench.run_until_idle()
    assert all(sink.outputs[0].embedding == sinks[0].outputs[0].embedding for sink in slow_sinks)
    assert max(len(batch.rows) for batch in bench.runner.batches) == 2, "half of the rows"
