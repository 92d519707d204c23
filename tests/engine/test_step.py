"""One step of the model, and which sequence fails when the step fails."""

from collections.abc import Sequence as SequenceOf

import pytest
import torch

from inference.engine import step as step_module
from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.kv.manager import KVCacheManager
from inference.engine.sampling.sampler import PendingSample
from inference.engine.sequence import Sequence
from inference.engine.step import ModelStep, StepOutOfMemory
from inference.engine.step_output import PromptLogprob
from inference.errors import Internal
from inference.model.batch import Batch, Resize, make_batch
from inference.model.lost_device import DeviceLost
from tests.engine.conftest import NAN, POISON, FakeRunner, GreedySampler, expected_ids
from tests.engine.generation_requests import make_request

CONTEXT = 64


def contiguous_memory() -> KVCacheManager:
    manager = ContiguousKVCacheManager(
        max_sequences=8, context=CONTEXT, kv_capacity=8 * CONTEXT, page_size=16, prefix_caching=False
    )
    manager.num_rows, manager.num_columns = 8, CONTEXT
    return manager


class StepBench:
    """Sequences in rows 0, 1, … of a runner, their prompts not yet computed."""

    def __init__(self, *prompts: list[int], sampler: GreedySampler | None = None, **runner: object) -> None:
        self.runner = FakeRunner(max_sequences=8, kv_capacity=1024, **runner)
        self.stepper = ModelStep(self.runner, sampler or GreedySampler(), contiguous_memory())
        self.sequences = [
            Sequence(row, make_request(tuple(ids), 5), None, list(ids)) for row, ids in enumerate(prompts)
        ]
        for row, sequence in enumerate(self.sequences):
            sequence.row = row

    def compute(self) -> list[int | None]:
        """The sampled id of each sequence, None for those that failed."""
        scheduled = [(sequence, sequence.num_uncomputed_tokens) for sequence in self.sequences]
        outcomes = self.stepper.execute(scheduled, [Resize(8, CONTEXT)])
        assert [outcome.sequence for outcome in outcomes] == self.sequences
        for outcome in outcomes:
            assert (outcome.error is None) != (not outcome.sampled_tokens or outcome.sampled_tokens[0].id < 0)
        return [None if outcome.error else outcome.sampled_tokens[0].id for outcome in outcomes]

    def expected_id(self, row: int) -> int:
        return expected_ids(make_request(tuple(self.sequences[row].token_ids), 1), CONTEXT)[0]


class PickySampler(GreedySampler):
    """Fails for the whole batch if a certain sequence is in it."""

    def __init__(self, id: int) -> None:
        self.id = id

    def sample_async(
        self, logits: torch.Tensor, sequences: SequenceOf[Sequence], checked: torch.Tensor | None = None
    ) -> PendingSample:
        if any(sequence.id == self.id for sequence in sequences):
            raise ValueError("not this one")
        return super().sample_async(logits, sequences, checked)


def test_each_sequence_gets_its_own_choice() -> None:
    step = StepBench([3, 4], [5], [6, 7, 8])
    assert step.compute() == [step.expected_id(row) for row in range(3)]


@pytest.mark.parametrize("culprit", range(5))
@pytest.mark.parametrize("chunked_prefill", (True, False))
def test_only_the_culprit_fails(culprit: int, chunked_prefill: bool) -> None:
    prompts = [[row + 3, 9] for row in range(5)]
    prompts[culprit].append(POISON)
    step = StepBench(*prompts, chunked_prefill=chunked_prefill)
    token_ids = step.compute()
    assert token_ids == [None if row == culprit else step.expected_id(row) for row in range(5)]


def test_two_culprits_fail_and_no_other() -> None:
    step = StepBench([3], [POISON], [5], [6], [POISON], [8])
    assert [id is None for id in step.compute()] == [False, True, False, False, True, False]


def test_cache_ops_are_applied_once_however_often_a_step_is_retried() -> None:
    step = StepBench([3], [POISON], [5])
    step.compute()
    assert [list(batch.cache_ops) for batch in step.runner.batches][1:] == [[]] * 4


def test_a_sequence_with_nan_logits_fails_alone_and_at_once() -> None:
    step = StepBench([3], [NAN], [5])
    assert [id is None for id in step.compute()] == [False, True, False]
    assert len(step.runner.batches) == 1


def test_a_sampler_failure_for_one_sequence_fails_no_other() -> None:
    step = StepBench([3], [4], [5], sampler=PickySampler(1))
    assert step.compute() == [step.expected_id(0), None, step.expected_id(2)]


def test_a_recurrent_sequence_starts_over_after_a_step_failed() -> None:
    step = StepBench([3, 4], [5, 6], chunked_prefill=False)
    step.compute()
    for sequence in step.sequences:
        sequence.num_computed_tokens = 2
        sequence.token_ids.append(9)
    step.sequences[1].token_ids[2] = POISON
    assert step.compute() == [step.expected_id(0), None]
    assert step.sequences[0].num_computed_tokens == 0


def test_the_error_message_hides_the_cause() -> None:
    step = StepBench([POISON])
    outcomes = step.stepper.execute([(step.sequences[0], 1)], [Resize(8, CONTEXT)])
    assert isinstance(outcomes[0].error, Internal) and "poison" not in str(outcomes[0].error)


@pytest.mark.parametrize(
    "error",
    (
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ),
)
def test_running_out_of_memory_fails_no_sequence(error: Exception) -> None:
    step = StepBench([3], [4])

    def fault(batch: Batch, moved: bool) -> None:
        raise error

    step.runner.on_forward = fault
    with pytest.raises(StepOutOfMemory):
        step.compute()


@pytest.mark.parametrize(
    "error", [RuntimeError("illegal memory access"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")]
)
def test_a_step_is_not_repeated_on_a_device_that_is_lost(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_module, "is_device_lost", lambda: True)
    step = StepBench([3], [5])

    def fail(batch: Batch, moved: bool) -> None:
        raise error

    step.runner.on_forward = fail
    with pytest.raises(DeviceLost, match=str(error)):
        step.compute()


def test_prompt_tokens_are_scored_by_the_logits_before_them() -> None:
    step = StepBench([3, 4, 5], [6])
    scored = Sequence(2, make_request((7, 8, 9), 5, prompt_logprobs=0), None, [7, 8, 9], row=2)
    scored.prompt_logprobs.append(PromptLogprob())
    scheduled = [(sequence, sequence.num_uncomputed_tokens) for sequence in (*step.sequences, scored)]
    outcomes = step.stepper.execute(scheduled, [Resize(8, CONTEXT)])
    logits = step.runner.forward(make_batch([7, 8], [0, 2], [0], [3], [0, 1], page_size=CONTEXT))
    assert [score.logprob for score in outcomes[2].prompt_logprobs] == [
        float(logits[0, 8]),
        float(logits[1, 9]),
    ]
    assert [outcome.sampled_tokens[0].id for outcome in outcomes[:2]] == [
        step.expected_id(0),
        step.expected_id(1),
    ]
    assert outcomes[2].sampled_tokens[0].id == expected_ids(make_request((7, 8, 9), 1), CONTEXT)[0]


def test_a_prompt_with_nan_scores_fails_though_no_token_follows_it() -> None:
    step = StepBench([3])
    scored = Sequence(1, make_request((7, NAN, 9), 0, prompt_logprobs=0), None, [7, NAN, 9], row=1)
    scored.prompt_logprobs.append(PromptLogprob())
    outcomes = step.stepper.execute([(step.sequences[0], 1), (scored, 3)], [Resize(8, CONTEXT)])
    assert outcomes[0].error is None and isinstance(outcomes[1].error, Internal)
