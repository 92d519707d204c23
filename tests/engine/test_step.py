"""One step's computation, and whose fault it is when it fails."""

from collections.abc import Sequence as Several

import pytest
import torch

from inference.engine.sampler import Drawn
from inference.engine.sequence import Score, Sequence, Task
from inference.engine.step import Shortage, Stepper
from inference.errors import Internal
from inference.model.batch import Batch, Shape
from tests.engine.conftest import NAN, POISON, FakeRunner, GreedySampler, alone

CONTEXT = 64


class Step:
    """Sequences in rows 0, 1, … of a runner, their prompts not yet computed."""

    def __init__(self, *prompts: list[int], sampler: GreedySampler | None = None, **runner: object) -> None:
        self.runner = FakeRunner(max_rows=8, area=1024, **runner)
        self.stepper = Stepper(self.runner, sampler or GreedySampler(), CONTEXT)
        self.sequences = [
            Sequence(row, Task(tuple(ids), 5), None, list(ids)) for row, ids in enumerate(prompts)
        ]
        for row, one in enumerate(self.sequences):
            one.row = row

    def compute(self) -> list[int | None]:
        """The id chosen for each sequence, None for those that failed."""
        plan = [(one, one.todo) for one in self.sequences]
        outcomes = self.stepper.compute(plan, [Shape(8, CONTEXT)])
        assert [outcome.sequence for outcome in outcomes] == self.sequences
        for outcome in outcomes:
            assert (outcome.error is None) != (not outcome.choices or outcome.choices[0].id < 0)
        return [None if outcome.error else outcome.choices[0].id for outcome in outcomes]

    def right(self, row: int) -> int:
        return alone(Task(tuple(self.sequences[row].tokens), 1), CONTEXT)[0]


class Picky(GreedySampler):
    """Fails as a whole when a certain sequence is among those asked for."""

    def __init__(self, id: int) -> None:
        self.id = id

    def draw(self, logits: torch.Tensor, sequences: Several[Sequence]) -> Drawn:
        if any(one.id == self.id for one in sequences):
            raise ValueError("not this one")
        return super().draw(logits, sequences)


def test_each_sequence_gets_its_own_choice() -> None:
    step = Step([3, 4], [5], [6, 7, 8])
    assert step.compute() == [step.right(row) for row in range(3)]


@pytest.mark.parametrize("culprit", range(5))
@pytest.mark.parametrize("resumes", (True, False))
def test_only_the_culprit_fails(culprit: int, resumes: bool) -> None:
    prompts = [[row + 3, 9] for row in range(5)]
    prompts[culprit].append(POISON)
    step = Step(*prompts, resumes=resumes)
    chosen = step.compute()
    assert chosen == [None if row == culprit else step.right(row) for row in range(5)]


def test_two_culprits_fail_and_no_other() -> None:
    step = Step([3], [POISON], [5], [6], [POISON], [8])
    assert [id is None for id in step.compute()] == [False, True, False, False, True, False]


def test_moves_are_done_once_however_often_a_step_is_tried() -> None:
    step = Step([3], [POISON], [5])
    step.compute()
    assert [list(batch.moves) for batch in step.runner.batches][1:] == [[]] * 4


def test_a_sequence_whose_logits_are_no_numbers_fails_alone_and_at_once() -> None:
    step = Step([3], [NAN], [5])
    assert [id is None for id in step.compute()] == [False, True, False]
    assert len(step.runner.batches) == 1


def test_a_sampler_that_fails_for_one_fails_for_no_other() -> None:
    step = Step([3], [4], [5], sampler=Picky(1))
    assert step.compute() == [step.right(0), None, step.right(2)]


def test_a_recurrent_sequence_begins_anew_after_a_step_failed() -> None:
    step = Step([3, 4], [5, 6], resumes=False)
    step.compute()
    for one in step.sequences:
        one.cached = 2
        one.tokens.append(9)
    step.sequences[1].tokens[2] = POISON
    assert step.compute() == [step.right(0), None]
    assert step.sequences[0].cached == 0


def test_the_user_learns_nothing_of_the_cause() -> None:
    step = Step([POISON])
    outcomes = step.stepper.compute([(step.sequences[0], 1)], [Shape(8, CONTEXT)])
    assert isinstance(outcomes[0].error, Internal) and "poison" not in str(outcomes[0].error)


@pytest.mark.parametrize(
    "error",
    (
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory"),
    ),
)
def test_a_lack_of_memory_is_nobodys_fault(error: Exception) -> None:
    step = Step([3], [4])

    def fault(batch: Batch, moved: bool) -> None:
        raise error

    step.runner.fault = fault
    with pytest.raises(Shortage):
        step.compute()


def test_prompt_tokens_are_scored_by_the_logits_before_them() -> None:
    step = Step([3, 4, 5], [6])
    scored = Sequence(2, Task((7, 8, 9), 5, prompt_logprobs=0), None, [7, 8, 9], row=2)
    scored.prompt_scores.append(Score())
    plan = [(one, one.todo) for one in (*step.sequences, scored)]
    outcomes = step.stepper.compute(plan, [Shape(8, CONTEXT)])
    logits = step.runner.forward(Batch([7, 8], [0, 2], [0], [3], [0, 1]))
    assert [score.logprob for score in outcomes[2].scores] == [float(logits[0, 8]), float(logits[1, 9])]
    assert [outcome.choices[0].id for outcome in outcomes[:2]] == [step.right(0), step.right(1)]
    assert outcomes[2].choices[0].id == alone(Task((7, 8, 9), 1), CONTEXT)[0]


def test_a_prompt_whose_scores_are_no_numbers_fails_though_nothing_follows_it() -> None:
    step = Step([3])
    scored = Sequence(1, Task((7, NAN, 9), 0, prompt_logprobs=0), None, [7, NAN, 9], row=1)
    scored.prompt_scores.append(Score())
    outcomes = step.stepper.compute([(step.sequences[0], 1), (scored, 3)], [Shape(8, CONTEXT)])
    assert outcomes[0].error is None and isinstance(outcomes[1].error, Internal)
