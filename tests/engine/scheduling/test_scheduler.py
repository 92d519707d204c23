"""The scheduler over contiguous memory, with integers alone: which sequence computes how many tokens."""

from inference.engine.scheduling.scheduler import PROMPT_LOGPROB_CHUNK, Scheduler
from inference.engine.scheduling.step_limits import MIN_BUDGET, STEPS_TO_RECOVER
from inference.engine.scheduling.waiting_served_ratio import WaitingServedRatio
from inference.engine.sequence import Sequence
from tests.engine.scheduler_bench import enqueue, make_scheduler, make_sequence, step


def decoding(scheduler: Scheduler, number: int) -> list[Sequence]:
    """`number` sequences whose prompts are computed."""
    several = [make_sequence(1) for _ in range(number)]
    enqueue(scheduler, *several)
    step(scheduler)
    return several


def test_a_long_prompt_is_computed_in_chunks_of_the_budget() -> None:
    scheduler, sequence = make_scheduler(budget=64), make_sequence(150)
    enqueue(scheduler, sequence)
    assert [step(scheduler)[sequence.id] for _ in range(4)] == [64, 64, 22, 1]


def test_a_decoding_sequence_gets_its_token_while_a_long_prompt_is_computed() -> None:
    scheduler = make_scheduler(budget=8)
    several, long = decoding(scheduler, 4), make_sequence(500)
    enqueue(scheduler, long)
    assert step(scheduler) == {sequence.id: 1 for sequence in several} | {long.id: 4}


def test_a_prompt_advances_even_when_decoding_takes_the_whole_budget() -> None:
    scheduler = make_scheduler(budget=4)
    for _ in range(4):
        decoding(scheduler, 1)
    long = make_sequence(500)
    enqueue(scheduler, long)
    assert step(scheduler)[long.id] == 1


def test_a_short_prompt_is_not_held_up_by_a_long_one() -> None:
    scheduler, long, short = make_scheduler(budget=64), make_sequence(800), make_sequence(10)
    enqueue(scheduler, long)
    step(scheduler)
    enqueue(scheduler, short)
    assert step(scheduler) == {short.id: 10, long.id: 54}


def test_the_shorter_of_two_long_prompts_goes_first() -> None:
    scheduler, several = make_scheduler(budget=64), [make_sequence(500), make_sequence(600)]
    enqueue(scheduler, *several)
    assert step(scheduler) == {several[0].id: 64}


def test_half_the_budget_goes_to_the_oldest_prompt_however_many_shorter_ones_come() -> None:
    scheduler, oldest = make_scheduler(budget=64), make_sequence(500)
    enqueue(scheduler, oldest, *(make_sequence(30) for _ in range(20)))
    assert min(step(scheduler)[oldest.id] for _ in range(5)) >= 30


def test_waiting_sequences_start_in_order_while_the_budget_lasts() -> None:
    scheduler, several = make_scheduler(budget=64), [make_sequence(20) for _ in range(8)]
    enqueue(scheduler, *several)
    step(scheduler)
    assert scheduler.running == several[:4]
    step(scheduler)
    assert scheduler.running == several[:7]


def test_no_more_sequences_run_than_there_are_rows() -> None:
    scheduler = make_scheduler(max_sequences=2)
    enqueue(scheduler, *(make_sequence(4) for _ in range(3)))
    step(scheduler)
    assert len(scheduler.running) == 2 and len(scheduler.waiting) == 1


def test_the_youngest_is_preempted_when_the_memory_is_full() -> None:
    scheduler = make_scheduler(kv_capacity=64, context=64, max_sequences=2)
    old, young = make_sequence(4), make_sequence(4)
    enqueue(scheduler, old, young)
    for _ in range(29):
        step(scheduler)
    assert scheduler.running == [old, young] and not scheduler.preemptions
    step(scheduler)
    assert scheduler.running == [old] and scheduler.waiting == [young] and scheduler.preemptions == 1
    assert len(young.token_ids) == 33 and young.num_computed_tokens == 0 and young.row == -1


def test_a_preempted_sequence_starts_before_those_that_came_later() -> None:
    scheduler = make_scheduler()
    first, second, third = make_sequence(4), make_sequence(4), make_sequence(4)
    enqueue(scheduler, first, second)
    step(scheduler)
    enqueue(scheduler, third)
    scheduler.preempt(second)
    assert scheduler.waiting == [second, third]


def test_a_preempted_sequence_reuses_its_computed_prefix() -> None:
    scheduler, sequence = make_scheduler(budget=64), make_sequence(50)
    enqueue(scheduler, sequence)
    step(scheduler)
    scheduler.preempt(sequence)
    assert step(scheduler) == {sequence.id: 1}


def test_running_sequences_stay_ordered_by_age_after_a_preemption() -> None:
    scheduler = make_scheduler()
    several = decoding(scheduler, 3)
    scheduler.preempt(several[0])
    step(scheduler)
    assert scheduler.running == several


def test_a_whole_prompt_is_computed_at_once_whatever_the_budget() -> None:
    scheduler, big = make_scheduler(budget=16, whole_prompts=True), make_sequence(300)
    enqueue(scheduler, big)
    assert step(scheduler) == {big.id: 300}


def test_one_big_whole_prompt_is_computed_per_step_while_others_decode() -> None:
    scheduler = make_scheduler(budget=16, whole_prompts=True)
    old, big, other = make_sequence(4), make_sequence(300), make_sequence(200)
    enqueue(scheduler, old)
    step(scheduler)
    enqueue(scheduler, big, other)
    assert step(scheduler) == {old.id: 1, big.id: 300}
    assert step(scheduler) == {old.id: 1, big.id: 1, other.id: 200}


def test_small_whole_prompts_share_a_step() -> None:
    scheduler, several = make_scheduler(budget=64, whole_prompts=True), [make_sequence(20) for _ in range(4)]
    enqueue(scheduler, *several)
    assert step(scheduler) == {sequence.id: 20 for sequence in several[:3]}


def test_a_preempted_whole_sequence_computes_prompt_and_answer_at_once() -> None:
    scheduler, sequence = make_scheduler(whole_prompts=True), make_sequence(30)
    enqueue(scheduler, sequence)
    for _ in range(5):
        step(scheduler)
    scheduler.preempt(sequence)
    assert step(scheduler) == {sequence.id: 35}


def test_an_encoders_input_counts_against_the_budget() -> None:
    scheduler = make_scheduler(budget=64, whole_prompts=True)
    several = [make_sequence(1, source=50) for _ in range(2)]
    enqueue(scheduler, *several)
    assert step(scheduler) == {several[0].id: 1}


def test_a_shared_prompt_is_computed_once() -> None:
    scheduler = make_scheduler(budget=128)
    several = [make_sequence(300, token=5) for _ in range(8)]
    enqueue(scheduler, *several)
    totals = [sum(step(scheduler).values()) for _ in range(4)]
    assert totals[:3] == [128, 128, 44]
    assert totals[3] == 8


def test_a_sequence_waiting_for_a_prefix_does_not_delay_those_behind_it() -> None:
    scheduler = make_scheduler(budget=64)
    enqueue(scheduler, make_sequence(300, token=5), make_sequence(300, token=5), other := make_sequence(20))
    assert other.id in step(scheduler)


def test_a_scored_prompt_is_computed_in_small_chunks() -> None:
    scheduler, sequence = make_scheduler(budget=4096), make_sequence(800, prompt_logprobs=0)
    enqueue(scheduler, sequence)
    assert step(scheduler) == {sequence.id: PROMPT_LOGPROB_CHUNK}


def test_finishing_frees_the_row_of_a_running_sequence_and_the_place_of_a_waiting_one() -> None:
    scheduler = make_scheduler(max_sequences=1)
    first, second = make_sequence(4), make_sequence(4)
    enqueue(scheduler, first, second)
    step(scheduler)
    scheduler.finish(second)
    scheduler.finish(first)
    assert not scheduler.running and not scheduler.waiting and not scheduler.kv_cache_manager.active


def test_running_out_of_memory_halves_the_budget_and_preempts_a_sequence() -> None:
    scheduler = make_scheduler(budget=64)
    several = decoding(scheduler, 3)
    assert scheduler.shrink_budget() is None
    assert scheduler.limits.token_budget == 32 and scheduler.running == several[:2]
    step(scheduler)
    assert scheduler.running == several[:2]


def test_the_limits_are_restored_after_enough_good_steps() -> None:
    scheduler = make_scheduler(budget=64)
    several = decoding(scheduler, 3)
    scheduler.shrink_budget()
    for _ in range(STEPS_TO_RECOVER):
        scheduler.limits.record_success()
    step(scheduler)
    assert scheduler.limits.token_budget == 64 and scheduler.running == several


def test_a_sequence_too_large_even_with_the_minimum_budget_is_returned() -> None:
    scheduler = make_scheduler(budget=64)
    (sequence,) = decoding(scheduler, 1)
    assert [scheduler.shrink_budget() for _ in range(3)] == [None, None, sequence]
    assert scheduler.limits.token_budget == 64 and MIN_BUDGET == 16


def test_running_out_of_memory_again_much_later_ends_no_answer() -> None:
    scheduler = make_scheduler(budget=16)
    decoding(scheduler, 1)
    scheduler.limits.record_success()
    assert scheduler.shrink_budget() is None


def test_all_sequences_are_computed_again_in_order_after_a_reset() -> None:
    scheduler = make_scheduler()
    several, later = decoding(scheduler, 3), make_sequence(2)
    enqueue(scheduler, later)
    scheduler.reset()
    assert scheduler.waiting == [*several, later] and all(
        sequence.num_computed_tokens == 0 for sequence in several
    )
    assert step(scheduler) == {sequence.id: 2 for sequence in (*several, later)}


def test_waiting_sequences_join_once_there_are_enough_of_them() -> None:
    scheduler = make_scheduler(admission=WaitingServedRatio(waiting_served_ratio=0.5, max_waiting_tokens=100))
    running, first, second = decoding(scheduler, 4), make_sequence(5), make_sequence(5)
    enqueue(scheduler, first)
    assert set(step(scheduler)) == {sequence.id for sequence in running}
    enqueue(scheduler, second)
    assert {first.id, second.id} <= set(step(scheduler))


def test_a_sequence_waits_for_others_no_longer_than_max_waiting_tokens() -> None:
    scheduler = make_scheduler(admission=WaitingServedRatio(waiting_served_ratio=1.0, max_waiting_tokens=5))
    decoding(scheduler, 4)
    late = make_sequence(5)
    enqueue(scheduler, late)
    assert [late.id in step(scheduler) for _ in range(5)] == [False, False, False, False, True]


def test_a_sequence_that_comes_after_quiet_steps_joins_at_once() -> None:
    scheduler = make_scheduler(admission=WaitingServedRatio(waiting_served_ratio=1.0, max_waiting_tokens=5))
    decoding(scheduler, 4)
    for _ in range(9):
        step(scheduler)
    late = make_sequence(5)
    enqueue(scheduler, late)
    assert late.id in step(scheduler)


def test_a_sequence_that_waits_alone_is_not_held_back() -> None:
    scheduler, sequence = (
        make_scheduler(admission=WaitingServedRatio(waiting_served_ratio=1.2, max_waiting_tokens=20)),
        make_sequence(5),
    )
    enqueue(scheduler, sequence)
    assert step(scheduler) == {sequence.id: 5}


def test_without_a_ratio_waiting_sequences_join_at_once() -> None:
    scheduler, sequence = (
        make_scheduler(admission=WaitingServedRatio(0.0, max_waiting_tokens=20)),
        make_sequence(5),
    )
    decoding(scheduler, 4)
    enqueue(scheduler, sequence)
    assert sequence.id in step(scheduler)


def in_flight(scheduler: Scheduler) -> None:
    """Launch and sample a step: its tokens are pending."""
    for sequence, num_tokens in scheduler.schedule():
        sequence.num_in_flight_tokens += num_tokens
        sequence.num_pending_tokens = sequence.num_unscheduled_tokens == 0


def test_a_pending_token_is_scheduled_while_prompts_go_on() -> None:
    scheduler = make_scheduler(budget=20)
    short, long = make_sequence(10), make_sequence(30)
    enqueue(scheduler, short, long)
    in_flight(scheduler)
    assert (short.num_pending_tokens, long.num_in_flight_tokens) == (1, 10)
    assert scheduler.schedule() == [(short, 1), (long, 19)]


def test_a_sequence_whose_pending_token_is_its_last_is_not_scheduled() -> None:
    scheduler = make_scheduler()
    ending, going_on, unsampled = make_sequence(10), make_sequence(10), make_sequence(10)
    ending.max_len, unsampled.max_len = 11, 10
    enqueue(scheduler, ending, going_on, unsampled)
    in_flight(scheduler)
    assert scheduler.schedule() == [(going_on, 1)]
    assert scheduler.running == [ending, going_on, unsampled]


def test_no_sequence_is_preempted_while_steps_are_in_flight() -> None:
    """The tokens in flight may end a sequence and so free memory."""
    scheduler = make_scheduler(kv_capacity=64, max_sequences=2)
    first, second = make_sequence(15), make_sequence(15)
    enqueue(scheduler, first, second)
    in_flight(scheduler)
    first.token_ids += [7] * 40
    assert scheduler.schedule() == [] and scheduler.newly_scheduled == []
    assert scheduler.running == [first, second] and not scheduler.preemptions
    first.num_in_flight_tokens = second.num_in_flight_tokens = 0
    first.num_pending_tokens = second.num_pending_tokens = 0
    assert scheduler.schedule() and scheduler.running == [first] and scheduler.preemptions == 1
