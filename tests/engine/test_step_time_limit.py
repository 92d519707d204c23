"""The limit of prompt tokens beside running answers, with seconds as given."""

from inference.engine.step_time_limit import MAX_RATIO, MIN_LIMIT_S, MIN_PROMPT_TOKENS, StepTimeLimit
from tests.engine.test_scheduler import enqueue, make_scheduler, make_sequence, step


def make_limit(decode_s: float, token_s: float) -> StepTimeLimit:
    limit = StepTimeLimit()
    limit.record_step([1, 1], decode_s)
    limit.record_step([1, 100], decode_s + 100 * token_s)
    return limit


def test_nothing_is_limited_before_both_kinds_of_steps_are_measured() -> None:
    limit = StepTimeLimit()
    limit.record_step([1], 0.1)
    assert limit.max_prompt_tokens is None


def test_a_step_with_prompts_takes_three_times_as_long_as_one_of_answers() -> None:
    limit = make_limit(decode_s=0.1, token_s=0.001)
    assert limit.max_prompt_tokens == round((MAX_RATIO - 1) * 0.1 / 0.001)


def test_short_steps_may_take_ten_milliseconds() -> None:
    limit = make_limit(decode_s=0.001, token_s=0.0001)
    assert limit.max_prompt_tokens == int((MIN_LIMIT_S - 0.001) / 0.0001)


def test_a_slow_prompt_still_advances() -> None:
    assert make_limit(decode_s=0.1, token_s=1.0).max_prompt_tokens == MIN_PROMPT_TOKENS


def test_one_step_that_other_processes_delayed_is_soon_forgotten() -> None:
    limit = make_limit(decode_s=0.1, token_s=0.001)
    limit.record_step([1, 100], 2.0)
    for _ in range(20):
        limit.record_step([1, 100], 0.2)
    assert 190 <= (limit.max_prompt_tokens or 0) <= 200


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
