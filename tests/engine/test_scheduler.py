"""Who computes how much: the scheduler over rows, with integers alone."""

from itertools import count

from inference.engine.admission import Admission
from inference.engine.rows import Rows
from inference.engine.scheduler import CALM, LEAST, SCORED, Scheduler
from inference.engine.sequence import Sequence, Task

OUTLET = None  # a scheduler never sends anything
ids = count()


def scheduler(
    budget: int = 64, whole: bool = False, admission: Admission | None = None, **changes: object
) -> Scheduler:
    shape = {"max_rows": 8, "context": 1024, "area": 8192, "step": 16, "keeps": not whole} | changes
    return Scheduler(Rows(**shape), budget=budget, whole=whole, admission=admission)


def sequence(length: int, token: int | None = None, source: int = 0, **options: object) -> Sequence:
    """With a prompt that shares nothing with others, unless a token to repeat is given."""
    id = next(ids)
    prompt = [id + 1000 if token is None else token] * length
    return Sequence(id, Task(tuple(prompt), 500, **options), OUTLET, prompt, (1,) * source)


def waiting(plan: Scheduler, *sequences: Sequence) -> None:
    plan.waiting += sequences


def step(plan: Scheduler) -> dict[int, int]:
    """Schedule and compute; id → tokens computed."""
    shares = plan.schedule()
    assert [share[0].row for share in shares] == sorted(share[0].row for share in shares)
    for one, taken in shares:
        one.cached += taken
        if one.todo == 0:
            one.tokens.append(7)
    plan.seating.check()
    return {one.id: taken for one, taken in shares}


def decoding(plan: Scheduler, number: int) -> list[Sequence]:
    """So many sequences, past their prompts."""
    several = [sequence(1) for _ in range(number)]
    waiting(plan, *several)
    step(plan)
    return several


def test_a_long_prompt_is_computed_in_pieces_of_the_budget() -> None:
    plan, one = scheduler(budget=64), sequence(150)
    waiting(plan, one)
    assert [step(plan)[one.id] for _ in range(4)] == [64, 64, 22, 1]


def test_a_decoding_sequence_gets_its_token_beside_a_long_prompt() -> None:
    plan = scheduler(budget=8)
    several, long = decoding(plan, 4), sequence(500)
    waiting(plan, long)
    assert step(plan) == {one.id: 1 for one in several} | {long.id: 4}


def test_a_prompt_advances_even_when_decoding_takes_the_whole_budget() -> None:
    plan = scheduler(budget=4)
    for _ in range(4):
        decoding(plan, 1)
    long = sequence(500)
    waiting(plan, long)
    assert step(plan)[long.id] == 1


def test_a_short_prompt_is_not_held_up_by_a_long_one() -> None:
    plan, long, short = scheduler(budget=64), sequence(800), sequence(10)
    waiting(plan, long)
    step(plan)
    waiting(plan, short)
    assert step(plan) == {short.id: 10, long.id: 54}


def test_of_two_long_prompts_the_one_sooner_through_goes_first() -> None:
    plan, several = scheduler(budget=64), [sequence(500), sequence(600)]
    waiting(plan, *several)
    assert step(plan) == {several[0].id: 64}


def test_half_the_room_is_the_oldest_prompts_however_many_shorter_ones_come() -> None:
    plan, oldest = scheduler(budget=64), sequence(500)
    waiting(plan, oldest, *(sequence(30) for _ in range(20)))
    assert min(step(plan)[oldest.id] for _ in range(5)) >= 30


def test_waiting_ones_are_seated_in_order_while_the_budget_lasts() -> None:
    plan, several = scheduler(budget=64), [sequence(20) for _ in range(8)]
    waiting(plan, *several)
    step(plan)
    assert plan.running == several[:4]
    step(plan)
    assert plan.running == several[:7]


def test_no_more_run_than_there_are_rows() -> None:
    plan = scheduler(max_rows=2)
    waiting(plan, *(sequence(4) for _ in range(3)))
    step(plan)
    assert len(plan.running) == 2 and len(plan.waiting) == 1


def test_the_youngest_is_preempted_when_the_area_is_full() -> None:
    plan = scheduler(area=64, context=64, max_rows=2)
    old, young = sequence(4), sequence(4)
    waiting(plan, old, young)
    for _ in range(29):
        step(plan)
    assert plan.running == [old, young] and not plan.preemptions
    step(plan)
    assert plan.running == [old] and plan.waiting == [young] and plan.preemptions == 1
    assert len(young.tokens) == 33 and young.cached == 0 and young.row == -1


def test_a_preempted_sequence_is_seated_before_those_that_came_later() -> None:
    plan = scheduler()
    first, second, third = sequence(4), sequence(4), sequence(4)
    waiting(plan, first, second)
    step(plan)
    waiting(plan, third)
    plan.preempt(second)
    assert plan.waiting == [second, third]


def test_a_preempted_sequence_finds_what_it_had_computed() -> None:
    plan, one = scheduler(budget=64), sequence(50)
    waiting(plan, one)
    step(plan)
    plan.preempt(one)
    assert step(plan) == {one.id: 1}


def test_running_ones_stay_ordered_by_age_after_a_preemption() -> None:
    plan = scheduler()
    several = decoding(plan, 3)
    plan.preempt(several[0])
    step(plan)
    assert plan.running == several


def test_a_whole_prompt_is_computed_at_once_whatever_the_budget() -> None:
    plan, big = scheduler(budget=16, whole=True), sequence(300)
    waiting(plan, big)
    assert step(plan) == {big.id: 300}


def test_one_big_whole_prompt_a_step_besides_the_decoding_ones() -> None:
    plan = scheduler(budget=16, whole=True)
    old, big, other = sequence(4), sequence(300), sequence(200)
    waiting(plan, old)
    step(plan)
    waiting(plan, big, other)
    assert step(plan) == {old.id: 1, big.id: 300}
    assert step(plan) == {old.id: 1, big.id: 1, other.id: 200}


def test_small_whole_prompts_share_a_step() -> None:
    plan, several = scheduler(budget=64, whole=True), [sequence(20) for _ in range(4)]
    waiting(plan, *several)
    assert step(plan) == {one.id: 20 for one in several[:3]}


def test_a_preempted_whole_sequence_computes_prompt_and_answer_at_once() -> None:
    plan, one = scheduler(whole=True), sequence(30)
    waiting(plan, one)
    for _ in range(5):
        step(plan)
    plan.preempt(one)
    assert step(plan) == {one.id: 35}


def test_an_encoders_input_counts_against_the_budget() -> None:
    plan = scheduler(budget=64, whole=True)
    several = [sequence(1, source=50) for _ in range(2)]
    waiting(plan, *several)
    assert step(plan) == {several[0].id: 1}


def test_a_shared_prompt_is_computed_once() -> None:
    plan = scheduler(budget=128)
    several = [sequence(300, token=5) for _ in range(8)]
    waiting(plan, *several)
    taken = [sum(step(plan).values()) for _ in range(4)]
    assert taken[:3] == [128, 128, 44]
    assert taken[3] == 8


def test_one_that_awaits_a_prefix_does_not_hold_up_those_behind_it() -> None:
    plan = scheduler(budget=64)
    waiting(plan, sequence(300, token=5), sequence(300, token=5), other := sequence(20))
    assert other.id in step(plan)


def test_a_prompt_whose_tokens_are_scored_takes_few_at_a_time() -> None:
    plan, one = scheduler(budget=4096), sequence(800, prompt_logprobs=0)
    waiting(plan, one)
    assert step(plan) == {one.id: SCORED}


def test_dropping_a_running_one_frees_its_row_and_a_waiting_one_its_place() -> None:
    plan = scheduler(max_rows=1)
    first, second = sequence(4), sequence(4)
    waiting(plan, first, second)
    step(plan)
    plan.drop(second)
    plan.drop(first)
    assert not plan.running and not plan.waiting and not plan.seating.live


def test_a_shortage_costs_half_the_budget_and_a_sequence() -> None:
    plan = scheduler(budget=64)
    several = decoding(plan, 3)
    assert plan.relieve() is None
    assert plan.budget == 32 and plan.running == several[:2]
    step(plan)
    assert plan.running == several[:2]


def test_a_shortage_is_over_after_enough_good_steps() -> None:
    plan = scheduler(budget=64)
    several = decoding(plan, 3)
    plan.relieve()
    for _ in range(CALM):
        plan.succeed()
    step(plan)
    assert plan.budget == 64 and plan.running == several


def test_one_too_large_even_alone_with_the_least_budget_is_named() -> None:
    plan = scheduler(budget=64)
    (one,) = decoding(plan, 1)
    assert [plan.relieve() for _ in range(3)] == [None, None, one]
    assert plan.budget == 64 and LEAST == 16


def test_one_shortage_long_after_another_costs_nobody_the_answer() -> None:
    plan = scheduler(budget=16)
    decoding(plan, 1)
    plan.succeed()
    assert plan.relieve() is None


def test_everyone_computes_again_in_order_after_forgetting() -> None:
    plan = scheduler()
    several, later = decoding(plan, 3), sequence(2)
    waiting(plan, later)
    plan.forget()
    assert plan.waiting == [*several, later] and all(one.cached == 0 for one in several)
    assert step(plan) == {one.id: 2 for one in (*several, later)}


def test_waiting_sequences_join_once_there_are_enough_of_them() -> None:
    plan = scheduler(admission=Admission(ratio=0.5, patience=100))
    running, first, second = decoding(plan, 4), sequence(5), sequence(5)
    waiting(plan, first)
    assert set(step(plan)) == {one.id for one in running}
    waiting(plan, second)
    assert {first.id, second.id} <= set(step(plan))


def test_a_sequence_waits_for_company_no_longer_than_the_patience() -> None:
    plan = scheduler(admission=Admission(ratio=1.0, patience=5))
    decoding(plan, 4)
    late = sequence(5)
    waiting(plan, late)
    assert [late.id in step(plan) for _ in range(5)] == [False, False, False, False, True]


def test_a_sequence_that_comes_after_quiet_steps_joins_at_once() -> None:
    plan = scheduler(admission=Admission(ratio=1.0, patience=5))
    decoding(plan, 4)
    for _ in range(9):
        step(plan)
    late = sequence(5)
    waiting(plan, late)
    assert late.id in step(plan)


def test_whoever_waits_alone_is_not_held_back() -> None:
    plan, one = scheduler(admission=Admission(ratio=1.2, patience=20)), sequence(5)
    waiting(plan, one)
    assert step(plan) == {one.id: 5}


def test_without_a_ratio_waiting_sequences_join_at_once() -> None:
    plan, one = scheduler(admission=Admission(patience=20)), sequence(5)
    decoding(plan, 4)
    waiting(plan, one)
    assert one.id in step(plan)
