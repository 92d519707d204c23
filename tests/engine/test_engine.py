"""The engine as its callers see it: requests in, outputs out, from any thread."""

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inference.engine.engine import Engine, adapter_names
from inference.engine.options import EngineOptions
from inference.engine.scheduling.step_limits import StepLimits
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob
from inference.errors import BadRequest, Internal, Overloaded, TooLong, Unavailable
from inference.model.batch import Clear
from inference.model.lost_device import DeviceLost
from tests.engine.conftest import END, NAN, POISON, Bench, FakeRunner, GreedySampler, RecordingSink
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.engine.scheduler_bench import make_sequence
from tests.timeouts import TIMEOUT_S

Make = Callable[..., Bench]
LONG = [7] * 60
ENDS = frozenset({END})
PAST = -1.0  # seconds


def test_an_answer_equals_that_of_the_runner_alone(make_bench: Make) -> None:
    bench = make_bench()
    sink = bench.submit([3, 4, 5], 8)
    bench.run_until_idle()
    assert (
        sink.token_ids == bench.expected_ids([3, 4, 5], 8)
        and sink.finish_reason == "length"
        and len(sink.token_ids) == 8
    )


def test_a_stop_token_ends_an_answer_and_is_part_of_it(make_bench: Make) -> None:
    bench = make_bench()
    third = bench.expected_ids([3, 4, 5], 8)[2]
    sink = bench.submit([3, 4, 5], 8, stop_token_ids=frozenset({third}))
    bench.run_until_idle()
    assert sink.finish_reason == "stop" and sink.token_ids[-1] == third and third not in sink.token_ids[:-1]


def test_an_answer_ends_where_its_row_is_full(make_bench: Make) -> None:
    bench = make_bench(context=64)
    sink = bench.submit(LONG, 100)
    bench.run_until_idle()
    assert sink.finish_reason == "length" and len(sink.token_ids) == 4


def test_the_first_output_says_how_much_of_the_prompt_was_cached(make_bench: Make) -> None:
    bench = make_bench()
    first = bench.submit(LONG[:40], 3)
    bench.run_until_idle()
    second = bench.submit(LONG[:40], 3)
    bench.run_until_idle()
    assert [record.num_cached_tokens for record in first.outputs] == [0, None, None]
    assert [record.num_cached_tokens for record in second.outputs] == [39, None, None]


def test_without_prefix_caching_every_prompt_is_computed_whole() -> None:
    runner, sinks = FakeRunner(), [RecordingSink(), RecordingSink(), RecordingSink()]
    engine = Engine(
        runner,
        GreedySampler(),
        EngineOptions(max_batch_tokens=32, max_queued_tokens=10_000, prefix_caching=False),
    )
    for group in (sinks[:2], sinks[2:]):
        engine.submit([make_request(tuple(LONG[:40]), 3)] * len(group), group)
        while engine.step():
            pass
    assert [sink.outputs[0].num_cached_tokens for sink in sinks] == [0, 0, 0]
    assert sinks[0].token_ids == sinks[1].token_ids == sinks[2].token_ids


def test_prompts_of_one_request_are_one_submission(make_bench: Make) -> None:
    bench = make_bench()
    for group in (-7, -7, 0):
        bench.submit(LONG[:4], 3, group=group)
    bench.engine.step()
    running = bench.engine.core.scheduler.running
    assert [sequence.submission for sequence in running] == [-7, -7, running[2].id]


def test_logprobs_come_with_each_token_if_requested(make_bench: Make) -> None:
    bench = make_bench()
    with_them, without = bench.submit([3, 4], 3, logprobs=0), bench.submit([3, 4], 3)
    bench.run_until_idle()
    assert all(len(record.logprobs) == len(record.top_logprobs) == 1 for record in with_them.outputs)
    assert all(record.logprobs == record.top_logprobs == () for record in without.outputs)


def test_a_prompt_can_be_scored_without_an_answer(make_bench: Make) -> None:
    bench = make_bench(max_batch_tokens=16)
    sink = bench.submit(LONG[:50], 0, prompt_logprobs=0)
    bench.run_until_idle()
    (record,) = sink.outputs
    assert record.finish_reason == "length" and record.token_ids == ()
    assert len(record.prompt_logprobs) == 50 and record.prompt_logprobs[0] == PromptLogprob()
    assert all(isinstance(score.logprob, float) for score in record.prompt_logprobs[1:])


def test_a_preempted_prompt_is_scored_once(make_bench: Make) -> None:
    plain, preempted = make_bench(max_batch_tokens=16), make_bench(max_batch_tokens=16)
    sinks = [bench.submit(range(1, 29), 2, prompt_logprobs=0) for bench in (plain, preempted)]
    preempted.step()
    preempted.probe.preempt(preempted.probe.running[0])
    plain.run_until_idle()
    preempted.run_until_idle()
    first, second = (sink.outputs[0].prompt_logprobs for sink in sinks)
    assert first == second and len(first) == 28


def test_an_encoder_decoder_answer_begins_after_the_decoder_start_ids(make_bench: Make) -> None:
    bench = make_bench(encoder_decoder=True, start_ids=(1, 2))
    sink = bench.submit(LONG * 3, 5)
    bench.run_until_idle()
    assert sink.token_ids == bench.expected_ids(LONG * 3, 5) and bench.runner.batches[0].token_ids == [1, 2]


def test_many_answers_to_one_prompt_compute_it_once(make_bench: Make) -> None:
    bench = make_bench(max_batch_tokens=1000, max_sequences=8, kv_capacity=8 * 64)
    sinks = [bench.submit(LONG[:50], 5) for _ in range(8)]
    bench.run_until_idle()
    assert [sink.outputs[0].num_cached_tokens for sink in sinks] == [0] + [49] * 7
    assert bench.engine.stats().cached_tokens == 7 * 49


def test_a_preempted_sequence_keeps_its_text(make_bench: Make) -> None:
    bench = make_bench()
    sinks = [bench.submit([n, 5], 20) for n in range(3, 6)]
    for _ in range(5):
        bench.step()
    bench.probe.preempt(bench.probe.running[1])
    bench.run_until_idle()
    assert [sink.token_ids for sink in sinks] == [bench.expected_ids([n, 5], 20) for n in range(3, 6)]
    assert [record.num_cached_tokens for record in sinks[1].outputs] == [0] + [None] * 19


def queued(bench: Bench, sink: RecordingSink, **options: object) -> int:
    for _ in range(bench.runner.max_sequences):
        bench.submit([3], 50)
    bench.step()
    return bench.submit_to(sink, [4], 50, **options)


def prefilling(bench: Bench, sink: RecordingSink, **options: object) -> int:
    id = bench.submit_to(sink, LONG, 3, **options)
    bench.step()
    return id


def decoding(bench: Bench, sink: RecordingSink, **options: object) -> int:
    id = bench.submit_to(sink, [4], 50, **options)
    bench.step()
    bench.step()
    return id


STATES = pytest.mark.parametrize("start_sequence", (queued, prefilling, decoding))


@STATES
def test_a_cancelled_sequence_ends_within_a_step(
    make_bench: Make, start_sequence: Callable[..., int]
) -> None:
    bench, sink = make_bench(max_batch_tokens=16), RecordingSink()
    bench.engine.abort([start_sequence(bench, sink)])
    bench.step()
    assert sink.finish_reason == "cancelled" and sink.outputs[-1].token_ids == ()


@STATES
def test_a_sequence_past_its_deadline_ends_within_a_step(
    make_bench: Make, start_sequence: Callable[..., int]
) -> None:
    bench, sink = make_bench(max_batch_tokens=16), RecordingSink()
    start_sequence(bench, sink, deadline=0.1)
    time.sleep(0.11)
    bench.step()
    assert sink.finish_reason == "deadline"


def test_a_request_whose_deadline_has_passed_computes_nothing(make_bench: Make) -> None:
    bench = make_bench()
    sink = bench.submit([3], 5, deadline=PAST)
    bench.run_until_idle()
    assert sink.finish_reason == "deadline" and not bench.runner.batches


def test_ended_sequences_leave_no_deadlines_behind(make_bench: Make) -> None:
    bench = make_bench()
    unfinished = bench.submit([3], 50, deadline=math.inf)
    for _ in range(10):
        bench.submit([3], 2, deadline=math.inf)
        bench.step()
        bench.step()
    assert bench.probe.num_deadlines <= 2 and not unfinished.has_ended
    bench.run_until_idle()
    assert bench.probe.num_deadlines == 0


def test_an_idle_engine_refers_to_no_request(make_bench: Make) -> None:
    bench = make_bench()
    sink = bench.submit([3, 4, 5], 1)
    bench.run_until_idle()
    sequences = [each for each in gc.get_objects() if type(each) is Sequence]
    assert sink.token_ids and not [each for each in sequences if each.output_sink is sink]


def test_cancelling_twice_or_after_the_end_does_nothing(make_bench: Make) -> None:
    bench, sink = make_bench(), RecordingSink()
    id = bench.submit_to(sink, [3], 2)
    bench.run_until_idle()
    bench.engine.abort([id, id, 999])
    bench.step()
    assert sink.finish_reason == "length" and bench.engine.stats().finished_by_reason["cancelled"] == 0


@pytest.mark.parametrize("bad", (POISON, NAN))
@pytest.mark.parametrize("chunked_prefill", (True, False))
def test_a_sequence_that_fails_leaves_its_neighbours_untouched(
    make_bench: Make, bad: int, chunked_prefill: bool
) -> None:
    bench = make_bench(chunked_prefill=chunked_prefill)
    sinks = [bench.submit([n, 5], 12) for n in (3, 4)]
    for _ in range(3):
        bench.step()
    failing = bench.submit([6, bad], 12)
    bench.run_until_idle()
    assert isinstance(failing.outputs[-1].error, Internal)
    assert [sink.token_ids for sink in sinks] == [bench.expected_ids([n, 5], 12) for n in (3, 4)]
    assert bench.engine.stats().finished_by_reason["error"] == 1 and not bench.engine.closed_reason


def test_the_memory_of_a_failed_sequence_is_not_reused(make_bench: Make) -> None:
    bench = make_bench(max_batch_tokens=16)
    bench.submit([*range(1, 29), NAN], 5)
    bench.run_until_idle()
    assert not bench.probe.has_cached_prefixes


@pytest.mark.parametrize("max_tokens", (0, 5))
def test_a_prompt_whose_logits_are_nan_fails_with_its_first_chunk(make_bench: Make, max_tokens: int) -> None:
    bench = make_bench(max_batch_tokens=16)
    sink = bench.submit([NAN, *range(1, 29)], max_tokens)
    bench.step()
    assert isinstance(sink.outputs[-1].error, Internal)
    assert any(isinstance(op, Clear) for op in bench.probe.pending_cache_ops)


def test_consecutive_failures_are_counted_until_a_success(make_bench: Make) -> None:
    bench = make_bench()
    for _ in range(3):
        bench.submit([POISON], 2)
        bench.run_until_idle()
    assert bench.engine.stats().consecutive_failures == 3
    bench.submit([3], 2)
    bench.run_until_idle()
    assert bench.engine.stats().consecutive_failures == 0


def test_a_request_too_large_for_the_memory_ends_and_the_next_is_served(make_bench: Make) -> None:
    bench = make_bench()

    def fault(batch: object, moved: bool) -> None:
        if 29 in batch.token_ids:
            raise MemoryError

    bench.runner.on_forward = fault
    large, small = bench.submit([29] * 10, 5), bench.submit([3], 5)
    bench.run_until_idle()
    assert "too little memory" in large.outputs[-1].error.message
    assert small.token_ids == bench.expected_ids([3], 5)


def test_a_sink_that_fails_harms_no_other(make_bench: Make) -> None:
    class Broken:
        def put(self, record: object) -> None:
            raise OSError("gone")

    bench = make_bench()
    bench.engine.submit([make_request((3,), 5)], [Broken()])
    sink = bench.submit([3], 5)
    bench.run_until_idle()
    assert len(sink.token_ids) == 5


def test_an_empty_prompt_is_refused(make_bench: Make) -> None:
    with pytest.raises(BadRequest, match="at least one token"):
        make_bench().submit([])


def test_a_prompt_longer_than_the_context_is_refused_unless_an_encoder_reads_it(make_bench: Make) -> None:
    with pytest.raises(TooLong):
        make_bench(context=64).submit([3] * 65)
    make_bench(context=64, encoder_decoder=True).submit([3] * 65)


def test_tasks_are_queued_all_or_none(make_bench: Make) -> None:
    bench = make_bench(max_queued_tokens=10)
    bench.submit([3] * 5)
    with pytest.raises(Overloaded):
        bench.engine.submit(
            [make_request((3, 4), 5), make_request((3,) * 8, 5)], [RecordingSink(), RecordingSink()]
        )
    assert bench.engine.stats().waiting_tokens == 5


def test_a_started_sequence_no_longer_counts_as_waiting(make_bench: Make) -> None:
    bench = make_bench(max_queued_tokens=10)
    bench.submit([3] * 10)
    bench.step()
    assert bench.engine.stats().waiting_tokens == 0
    bench.submit([3] * 10)


def test_the_outputs_of_a_step_are_delivered_in_one_call(make_bench: Make) -> None:
    bench, posted = make_bench(), []
    bench.engine.set_delivery(posted.append)
    sinks = [bench.submit([n], 5) for n in range(3, 6)]
    bench.step()
    assert len(posted) == 1 and not any(sink.outputs for sink in sinks)
    posted[0]()
    assert all(len(sink.outputs) == 1 for sink in sinks)


def test_a_closed_event_loop_does_not_stop_the_engine(make_bench: Make) -> None:
    bench = make_bench()

    def closed(callback: object) -> None:
        raise RuntimeError("event loop is closed")

    bench.engine.set_delivery(closed)
    bench.submit([3], 3)
    bench.run_until_idle()
    assert bench.engine.stats().generated_tokens == 3


def test_the_stats_add_up(make_bench: Make) -> None:
    bench = make_bench()
    for n in range(3, 9):
        bench.submit([n] * 10, 4)
    bench.step()
    stats = bench.engine.stats()
    assert (stats.running, stats.waiting, stats.waiting_tokens) == (4, 2, 20)
    bench.run_until_idle()
    stats = bench.engine.stats()
    assert (stats.running, stats.waiting, stats.generated_tokens, stats.prompt_tokens) == (0, 0, 24, 60)
    assert stats.finished_by_reason["length"] == 6 and stats.steps > 4 and stats.step_seconds > 0
    assert (stats.kv_used, stats.kv_capacity) == (0, 256)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(
        FakeRunner(), GreedySampler(), EngineOptions(max_batch_tokens=32, max_queued_tokens=10_000)
    )
    engine.start()
    yield engine
    engine.stop()


def wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, "the condition did not become true in time"
        time.sleep(0.001)


def test_many_threads_submit_and_cancel(engine: Engine) -> None:
    bench, uncancelled, cancelled = Bench(FakeRunner()), [], []

    def submit_and_cancel(seed: int) -> None:
        for n in range(15):
            prompt = [seed + 3, n + 1, 5]
            sinks = [RecordingSink(), RecordingSink()]
            ids = engine.submit([make_request(tuple(prompt), 12), make_request(tuple(prompt), 50)], sinks)
            engine.abort(ids[1:])
            uncancelled.append((prompt, sinks[0]))
            cancelled.append(sinks[1])

    threads = [threading.Thread(target=submit_and_cancel, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait(lambda: all(sink.has_ended for _, sink in uncancelled) and all(sink.has_ended for sink in cancelled))
    assert all(sink.token_ids == bench.expected_ids(prompt, 12) for prompt, sink in uncancelled)
    assert all(sink.finish_reason in ("cancelled", "length") for sink in cancelled)
    assert engine.stats().waiting_tokens == 0 and not engine.closed_reason


def test_an_idle_engine_takes_no_steps(engine: Engine) -> None:
    sink = RecordingSink()
    engine.submit([make_request((3,), 2)], [sink])
    wait(lambda: sink.has_ended)
    steps = engine.stats().steps
    time.sleep(0.05)
    assert engine.stats().steps == steps


def test_stopping_ends_every_sequence_and_refuses_new_ones(engine: Engine) -> None:
    EngineProbe(engine).runner.on_forward = lambda batch, moved: wait(lambda: bool(engine.closed_reason))
    sinks = [RecordingSink() for _ in range(8)]
    engine.submit([make_request((3,), 60)] * 8, sinks)
    engine.stop()
    engine.stop()
    assert all(isinstance(sink.outputs[-1].error, Unavailable) for sink in sinks)
    assert engine.closed_reason
    with pytest.raises(Unavailable, match="shutting down"):
        engine.submit([make_request((3,), 5)], [RecordingSink()])


def test_an_engine_never_started_can_be_stopped(make_bench: Make) -> None:
    bench = make_bench()
    sink = bench.submit([3])
    bench.engine.stop()
    assert isinstance(sink.outputs[-1].error, Unavailable)


@pytest.mark.parametrize(
    ("error", "failed"), [(RuntimeError("no step succeeds"), "engine"), (DeviceLost("illegal access"), "GPU")]
)
def test_a_dead_engine_fails_every_request_and_gives_the_reason(
    engine: Engine, error: Exception, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks, is_submitted = [RecordingSink(), RecordingSink()], threading.Event()

    def fail(limits: StepLimits) -> None:
        is_submitted.wait(TIMEOUT_S)
        raise error

    monkeypatch.setattr(StepLimits, "record_success", fail)
    engine.submit([make_request((3,), 60)], sinks[:1])
    engine.submit([make_request((3,), 60)], sinks[1:])
    is_submitted.set()
    wait(lambda: engine.closed_reason and all(sink.has_ended for sink in sinks))
    assert all(isinstance(sink.outputs[-1].error, Internal) for sink in sinks)
    assert engine.closed_reason == f"the {failed} has failed: the server must be restarted"


def test_the_adapters_of_sequences_are_named_once_and_in_order() -> None:
    sequences = [make_sequence(4, adapter=name) for name in ("poet", None, "cook", "poet")]
    assert adapter_names(sequences) == ("cook", "poet")
    assert adapter_names([]) == ()
