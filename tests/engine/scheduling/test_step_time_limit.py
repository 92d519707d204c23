"""The limit of prompt tokens beside running answers, with seconds as given."""

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.scheduling.step_time_limit import (
    MAX_RATIO,
    MIN_LIMIT_S,
    MIN_PROMPT_TOKENS,
    StepTimeLimit,
)
from tests.engine.conftest import VOCAB, RecordingSink
from tests.engine.generation_requests import make_request
from tests.engine.scheduler_bench import enqueue, make_scheduler, make_sequence, step
from tests.walks.paged_echo_runner import PagedEchoRunner


def make_limit(decode_s: float, token_s: float) -> StepTimeLimit:
    limit = StepTimeLimit()
    limit.record_step(0, 0, decode_s)
    limit.record_step(100, 0, decode_s + 100 * token_s)
    return limit


def test_nothing_is_limited_before_both_kinds_of_steps_are_measured() -> None:
    limit = StepTimeLimit()
    limit.record_step(0, 0, 0.1)
    assert limit.max_prompt_tokens is None


def test_a_step_with_prompts_takes_three_times_as_long_as_one_of_answers() -> None:
    limit = make_limit(decode_s=0.1, token_s=0.001)
    assert limit.max_prompt_tokens == round((MAX_RATIO - 1) * 0.1 / 0.001)


def test_short_steps_may_take_six_milliseconds() -> None:
    limit = make_limit(decode_s=0.001, token_s=0.0001)
    assert limit.max_prompt_tokens == int((MIN_LIMIT_S - 0.001) / 0.0001)


def test_a_slow_prompt_still_advances() -> None:
    assert make_limit(decode_s=0.1, token_s=1.0).max_prompt_tokens == MIN_PROMPT_TOKENS


def test_one_step_that_other_processes_delayed_is_soon_forgotten() -> None:
    limit = make_limit(decode_s=0.1, token_s=0.001)
    limit.record_step(100, 0, 2.0)
    for _ in range(20):
        limit.record_step(100, 0, 0.2)
    assert 190 <= (limit.max_prompt_tokens or 0) <= 200


def test_steps_with_drafts_count_neither_as_answers_nor_as_prompts() -> None:
    limit = make_limit(decode_s=0.1, token_s=0.001)
    limit.record_step(0, 8, 5.0)
    assert (limit.decode_s, limit.token_s) == pytest.approx((0.1, 0.001))


def test_the_last_token_of_an_input_is_no_running_answer() -> None:
    scheduler = make_scheduler(budget=128)
    scheduler.step_time_limit = make_limit(decode_s=2**-5, token_s=2**-10)
    pooled, prompt = make_sequence(129), make_sequence(200)
    pooled.pooling = "mean"
    enqueue(scheduler, pooled)
    step(scheduler)
    enqueue(scheduler, prompt)
    assert step(scheduler) == {pooled.id: 1, prompt.id: 127}


def test_inputs_of_one_token_do_not_count_as_steps_of_answers() -> None:
    scheduler = make_scheduler()
    scheduler.step_time_limit = make_limit(decode_s=0.1, token_s=0.001)
    pooled = make_sequence(1)
    pooled.pooling = "mean"
    scheduler.record_step([(pooled, 1)], 0, 0.0, 5.0)
    assert scheduler.step_time_limit.decode_s == 0.1


@pytest.mark.parametrize("overlaps", [False, True])
def test_steps_are_limited_whether_or_not_they_overlap(overlaps: bool) -> None:
    runner = PagedEchoRunner(max_sequences=4, kv_capacity=400, context=128, overlap=overlaps)
    engine, num_tokens = (
        Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=128, max_queued_tokens=1000)),
        [],
    )
    engine.set_step_listener(lambda step_stats: num_tokens.append(step_stats.num_tokens))
    engine.submit([make_request((4, 5), 50)], [RecordingSink()])
    with torch.inference_mode():
        for _ in range(4):
            engine.step()
        limit = engine.core.scheduler.step_time_limit
        assert limit is not None and limit.decode_s
        limit.token_s = 1.0  # so long that what the next steps really take does not count
        engine.submit([make_request((5,) * 96, 1)], [RecordingSink()])
        for _ in range(3):
            engine.step()
    assert max(num_tokens) == MIN_PROMPT_TOKENS + 1


def test_prompts_take_shorter_chunks_while_a_sequence_decodes() -> None:
    scheduler = make_scheduler(budget=128)
    scheduler.step_time_limit = make_limit(decode_s=2**-5, token_s=2**-10)
    decoding, prompt = make_sequence(1), make_sequence(200)
    enqueue(scheduler, decoding)
    step(scheduler)
    enqueue(scheduler, prompt)
    assert step(scheduler) == {decoding.id: 1, prompt.id: 64}
    assert scheduler.step_budget == 65


def test_prompts_alone_use_the_whole_budget() -> None:
    scheduler = make_scheduler(budget=128)
    scheduler.step_time_limit = make_limit(decode_s=2**-5, token_s=2**-10)
    enqueue(scheduler, make_sequence(200))
    assert list(step(scheduler).values()) == [128]
