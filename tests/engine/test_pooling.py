"""Embeddings: prompts whose hidden states are summed, in the same steps as answers."""

import math
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sequence import POOLING
from inference.engine.step_output import StepOutput
from inference.model.batch import Batch
from tests.engine.conftest import NAN, POISON, Bench, FakeRunner, RecordingSink, hidden_sum
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.fakes.stepped_clock import SteppedClock
from tests.walks.async_device import AsyncEchoRunner, AsyncSampler

MakeBench = Callable[..., Bench]

TEXTS = [tuple(range(3, 3 + length)) for length in (20, 1, 9, 5)]


def submit(bench: Bench, *texts: SequenceOf[int], **options: object) -> tuple[list[RecordingSink], list[int]]:
    """The sinks of the texts to embed, and their ids."""
    sinks = [RecordingSink() for _ in texts]
    requests = [make_request(tuple(text), 0, **options) for text in texts]
    return sinks, bench.engine.submit_pooling(requests, sinks)


def expected_embedding(token_ids: SequenceOf[int]) -> list[float]:
    return torch.nn.functional.normalize(torch.tensor(hidden_sum(token_ids)), dim=0).tolist()


def check_embeddings(sinks: SequenceOf[RecordingSink], texts: SequenceOf[SequenceOf[int]]) -> None:
    for sink, text in zip(sinks, texts, strict=True):
        assert list(last_output(sink).embedding) == pytest.approx(expected_embedding(text))
        assert sink.finish_reason == "stop" and not sink.token_ids


def last_output(sink: RecordingSink) -> StepOutput:
    (output,) = sink.outputs
    return output


@pytest.mark.parametrize("budget", (4, 32, 256))
@pytest.mark.parametrize("shape", ({}, {"chunked_prefill": False}, {"encoder_decoder": True}))
def test_an_embedding_is_the_mean_over_all_chunks(
    make_bench: MakeBench, budget: int, shape: dict[str, bool]
) -> None:
    bench = make_bench(budget, **shape)
    sinks, _ = submit(bench, *TEXTS)
    bench.run_until_idle()
    check_embeddings(sinks, TEXTS)


@pytest.mark.parametrize("shape", ({}, {"chunked_prefill": False}, {"encoder_decoder": True}))
def test_an_embedding_may_be_the_state_of_the_last_token(shape: dict[str, bool]) -> None:
    bench = Bench(FakeRunner(**shape), max_batch_tokens=4, pooling="last")
    answer_sink = bench.submit((4, 5, 6), 30)
    sinks, _ = submit(bench, *TEXTS)
    bench.run_until_idle()
    check_embeddings(sinks, [text[-1:] for text in TEXTS])
    for sink, text in zip(sinks, TEXTS, strict=True):
        assert last_output(sink).embedding_norm == pytest.approx(math.hypot(*hidden_sum(text[-1:])))
    assert answer_sink.token_ids == bench.expected_ids((4, 5, 6), 30)


@pytest.mark.parametrize("shape", ({}, {"chunked_prefill": False}, {"encoder_decoder": True}))
def test_answers_and_embeddings_share_steps_and_change_nothing_in_each_other(
    make_bench: MakeBench, shape: dict[str, bool]
) -> None:
    bench = make_bench(8, **shape)
    answer_sink = bench.submit((4, 5, 6), 30)
    bench.step()
    sinks, _ = submit(bench, *TEXTS)
    bench.run_until_idle()
    check_embeddings(sinks, TEXTS)
    assert answer_sink.token_ids == bench.expected_ids((4, 5, 6), 30)
    assert any(0 < len(batch.pooled_rows) < len(batch.rows) for batch in bench.runner.batches)


def test_short_inputs_share_a_step(make_bench: MakeBench) -> None:
    bench = make_bench(64, max_sequences=16, kv_capacity=1024)
    sinks, _ = submit(bench, *[(3, 4, 5)] * 8)
    assert bench.run_until_idle() <= 2
    check_embeddings(sinks, [(3, 4, 5)] * 8)


def test_equal_texts_are_computed_each(make_bench: MakeBench) -> None:
    """A reused prefix would lack its hidden states."""
    text = tuple(range(3, 29)) * 2
    bench = make_bench(64)
    answer_sink = bench.submit(text, 1)
    bench.run_until_idle()
    sinks, _ = submit(bench, text, text)
    bench.run_until_idle()
    check_embeddings(sinks, [text, text])
    assert answer_sink.token_ids == bench.expected_ids(text, 1)


def test_the_sum_restarts_after_a_preemption(make_bench: MakeBench) -> None:
    bench = make_bench(8)
    sinks, _ = submit(bench, TEXTS[0])
    bench.step()
    (sequence,) = bench.probe.running
    assert sequence.pooled_sum is not None
    bench.engine.core.scheduler.preempt(sequence)
    bench.run_until_idle()
    check_embeddings(sinks, [TEXTS[0]])


def test_a_step_out_of_memory_changes_no_embedding(make_bench: MakeBench) -> None:
    fails = iter((False, True, False, True))

    def run_out(_: object, moved: bool) -> None:
        if moved and next(fails, False):
            raise MemoryError("full")

    bench = make_bench(32, on_forward=run_out)
    sinks, _ = submit(bench, *TEXTS)
    bench.run_until_idle()
    check_embeddings(sinks, TEXTS)


def test_an_aborted_input_has_no_embedding(make_bench: MakeBench) -> None:
    bench = make_bench(8)
    sinks, ids = submit(bench, *[TEXTS[0]] * 8)
    bench.step()
    bench.engine.abort(ids)
    bench.run_until_idle()
    assert {last_output(sink).finish_reason for sink in sinks} == {"cancelled"}
    assert not any(last_output(sink).embedding for sink in sinks)


def test_an_input_ends_at_its_deadline(make_bench: MakeBench) -> None:
    bench = make_bench(8)
    sinks, _ = submit(bench, TEXTS[0], deadline=-1.0)
    bench.run_until_idle()
    assert last_output(sinks[0]).finish_reason == "deadline" and not last_output(sinks[0]).embedding


@pytest.mark.parametrize("bad_id", (POISON, NAN))
def test_an_input_that_cannot_be_computed_fails_alone(make_bench: MakeBench, bad_id: int) -> None:
    bench = make_bench(32)
    answer_sink = bench.submit((4, 5, 6), 12)
    sinks, _ = submit(bench, TEXTS[2], (5, bad_id, 6), TEXTS[3])
    bench.run_until_idle()
    check_embeddings([sinks[0], sinks[2]], [TEXTS[2], TEXTS[3]])
    error = last_output(sinks[1]).error
    assert error is not None and error.status == 500
    assert answer_sink.token_ids == bench.expected_ids((4, 5, 6), 12)


def test_the_length_of_the_mean_is_reported(make_bench: MakeBench) -> None:
    for shape in ({}, {"encoder_decoder": True}):
        bench = make_bench(4, **shape)
        sinks, _ = submit(bench, *TEXTS)
        bench.run_until_idle()
        for sink, text in zip(sinks, TEXTS, strict=True):
            mean = torch.tensor(hidden_sum(text)) / len(text)
            assert last_output(sink).embedding_norm == pytest.approx(mean.norm().item())


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf))
def test_hidden_states_that_are_no_numbers_fail_their_input_alone(
    make_bench: MakeBench, value: float
) -> None:
    """Even if the logits behind the input are numbers."""
    bench = make_bench(32)
    forward = bench.runner.forward

    def forward_with_bad_sum(batch: Batch) -> torch.Tensor:
        logits = forward(batch)
        bench.runner.hidden_sums[0, 0] = value
        return logits

    bench.runner.forward = forward_with_bad_sum  # type: ignore[method-assign]
    sinks, _ = submit(bench, TEXTS[1], TEXTS[3])
    bench.run_until_idle()
    check_embeddings([sinks[1]], [TEXTS[3]])
    error = last_output(sinks[0]).error
    assert error is not None and (error.status, "not a number" in error.message) == (500, True)
    assert not last_output(sinks[0]).embedding


def test_large_hidden_states_do_not_overflow(make_bench: MakeBench) -> None:
    bench = make_bench(4)
    forward = bench.runner.forward

    def forward_with_large_sums(batch: Batch) -> torch.Tensor:
        logits = forward(batch)
        bench.runner.hidden_sums.mul_(1e36)
        return logits

    bench.runner.forward = forward_with_large_sums  # type: ignore[method-assign]
    sinks, _ = submit(bench, TEXTS[0])
    bench.run_until_idle()
    check_embeddings(sinks, TEXTS[:1])


def test_inputs_do_not_count_towards_the_queue_limit(make_bench: MakeBench) -> None:
    bench = make_bench(8, max_queued_tokens=10)
    sinks, _ = submit(bench, *[TEXTS[0]] * 100)
    answer_sink = bench.submit((4, 5, 6), 2)
    submit(bench, *[TEXTS[0]] * 100)
    assert bench.engine.stats().waiting_tokens == 3
    bench.run_until_idle(5_000)
    check_embeddings(sinks, [TEXTS[0]] * 100)
    assert answer_sink.token_ids == bench.expected_ids((4, 5, 6), 2)


@pytest.mark.parametrize("shape", ({}, {"chunked_prefill": False}, {"encoder_decoder": True}))
def test_an_answer_does_not_wait_for_many_inputs(make_bench: MakeBench, shape: dict[str, bool]) -> None:
    bench = make_bench(16, **shape)
    submit(bench, *[TEXTS[0]] * 200)
    for _ in range(3):
        bench.step()
    answer_sink = bench.submit(tuple(range(3, 27)), 4)
    for _ in range(12):
        bench.step()
    assert answer_sink.has_ended


def test_a_prompt_of_an_answer_comes_before_shorter_inputs(make_bench: MakeBench) -> None:
    bench = make_bench(8)
    first_sink = bench.submit(tuple(range(3, 27)), 1)
    submit(bench, *[TEXTS[3]] * 3)
    second_sink = bench.submit(tuple(range(3, 15)), 1)
    while not (first_sink.has_ended and second_sink.has_ended):
        bench.step()
    assert not any(batch.pooled_rows for batch in bench.runner.batches[:-1])


def test_inputs_are_computed_while_answers_keep_coming(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()

    def take_a_second(batch: Batch, moved: bool) -> None:
        clock.now += moved

    bench = make_bench(16, on_forward=take_a_second)
    bench.probe.set_clock(monkeypatch, clock)  # inputs pause for as long as their last step took
    sinks, _ = submit(bench, *TEXTS)
    for step in range(200):
        if step % 2 == 0:
            bench.submit((4, 5, 6 + step % 20), 8)
        bench.step()
    check_embeddings(sinks, TEXTS)


def test_at_most_half_of_the_rows_are_pooled(make_bench: MakeBench) -> None:
    bench = make_bench(256, max_sequences=6)
    submit(bench, *[TEXTS[1]] * 50)
    bench.run_until_idle()
    assert max(len(batch.pooled_rows) for batch in bench.runner.batches) == 3


def test_an_overlapped_step_yields_embeddings() -> None:
    runner = AsyncEchoRunner(max_sequences=4, kv_capacity=400, context=96)
    runner.capabilities = replace(runner.capabilities, pooling=True)
    forward = runner.forward

    def forward_with_sums(batch: object) -> torch.Tensor:
        spans = [batch.query_start_loc[i : i + 2] for i in batch.pooled_rows]  # type: ignore[attr-defined]
        sums = [hidden_sum(batch.token_ids[start:end]) for start, end in spans]  # type: ignore[attr-defined]
        runner.hidden_sums = torch.tensor(sums)
        return forward(batch)

    runner.forward = forward_with_sums
    bench = Bench(FakeRunner())
    bench.engine = Engine(
        runner, AsyncSampler(runner), EngineOptions(max_batch_tokens=12, max_queued_tokens=1000)
    )
    answer_sink = RecordingSink()
    bench.engine.submit([make_request((4, 5, 6), 20)], [answer_sink])
    sinks, ids = submit(bench, *TEXTS, TEXTS[0])
    for _ in range(2):
        bench.engine.step()
    bench.engine.abort(ids[-1:])
    bench.engine.run_until_idle()
    check_embeddings(sinks[:-1], TEXTS)
    assert len(answer_sink.token_ids) == 20 and last_output(sinks[-1]).finish_reason == "cancelled"


def test_inputs_pause_while_answers_run_for_as_long_as_their_last_step_took(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()

    def slow_pooling(batch: Batch, moved: bool) -> None:
        if moved:
            clock.now += 100 if batch.pooled_rows else 1

    bench = make_bench(8, on_forward=slow_pooling)
    EngineProbe(bench.engine).set_clock(monkeypatch, clock)
    answer_sink = bench.submit((4, 5, 6), 40)
    sinks, _ = submit(bench, *TEXTS[:2])
    while not answer_sink.has_ended:
        bench.step()
    pooled = [bool(batch.pooled_rows) for batch in bench.runner.batches]
    assert pooled.count(True) == 1 and pooled.count(False) >= 38
    bench.run_until_idle()
    check_embeddings(sinks, TEXTS[:2])


def test_inputs_alone_do_not_pause(make_bench: MakeBench) -> None:
    bench = make_bench(8)
    sinks, _ = submit(bench, *TEXTS)
    while not all(sink.has_ended for sink in sinks):
        if (policy := bench.engine.core.scheduler.priority_policy) is not None:
            policy._resume_s[POOLING] = math.inf
        bench.step()
    check_embeddings(sinks, TEXTS)
