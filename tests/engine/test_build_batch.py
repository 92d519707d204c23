"""The Batch built from the scheduler's output."""

import torch

from inference.engine.build_batch import SampledIds, build_batch
from inference.engine.sequence import PromptLogprob, Sequence, Task
from inference.model.batch import Batch, PendingTokens, Swap

CONTEXT = 100


def make_sequence(
    ids: list[int], row: int, cached: int = 0, max_tokens: int = 10, **options: object
) -> Sequence:
    source = options.pop("source", ())
    sequence = Sequence(row, Task(tuple(ids), max_tokens, **options), None, list(ids), source)
    sequence.row, sequence.num_computed_tokens = row, cached
    return sequence


def scored_sequence(
    ids: list[int], row: int, cached: int = 0, already: int = 1, **options: object
) -> Sequence:
    sequence = make_sequence(ids, row, cached, prompt_logprobs=0, **options)
    sequence.prompt_logprobs = [PromptLogprob()] * already
    return sequence


def test_rows_at_any_stage_share_a_batch() -> None:
    decoding, chunk, last = (
        make_sequence([1, 2, 3], 0, 2),
        make_sequence([4, 5, 6, 7], 1, 1),
        make_sequence([8, 9, 10], 3, 1),
    )
    prepared_batch = build_batch([(decoding, 1), (chunk, 2), (last, 2)], (), CONTEXT)
    assert prepared_batch.batch == Batch(
        [3, 5, 6, 9, 10],
        query_start_loc=[0, 1, 3, 5],
        num_computed_tokens=[2, 1, 1],
        rows=[0, 1, 3],
        logits_indices=[0, 2, 4],
    )
    assert prepared_batch.sampled_sequences == [decoding, last] and prepared_batch.sampled_rows == [0, 2]
    assert prepared_batch.nan_checks == {chunk.id: 1}


def test_cache_ops_are_passed_with_the_batch() -> None:
    cache_ops = [Swap(0, 1, 5)]
    assert build_batch([(make_sequence([1], 0), 1)], cache_ops, CONTEXT).batch.cache_ops is cache_ops


def test_encoder_inputs_are_passed_for_rows_that_begin() -> None:
    begins, goes_on = make_sequence([1], 0, source=(5, 6)), make_sequence([1, 2], 1, 1, source=(7, 8))
    assert build_batch([(begins, 1), (goes_on, 1)], (), CONTEXT).batch.encoder_inputs == {0: (5, 6)}


def test_a_sequence_that_may_gain_no_token_is_only_checked_for_nan() -> None:
    no_output, full = make_sequence([1, 2], 0, max_tokens=0), make_sequence([1] * CONTEXT, 1)
    prepared_batch = build_batch([(no_output, 2), (full, CONTEXT)], (), CONTEXT)
    assert prepared_batch.batch.logits_indices == [1, CONTEXT + 1] and prepared_batch.sampled_sequences == []
    assert prepared_batch.nan_checks == {0: 0, 1: 1}


def test_a_chunk_that_is_scored_to_its_end_needs_no_nan_check() -> None:
    prepared_batch = build_batch(
        [(scored_sequence([1, 2, 3, 4], 0), 2), (scored_sequence([5, 6], 1, max_tokens=0), 2)], (), CONTEXT
    )
    assert prepared_batch.batch.logits_indices == [0, 1, 2, 3] and prepared_batch.nan_checks == {1: 3}


def test_a_scored_prompt_needs_the_logits_before_each_of_its_tokens() -> None:
    other, sequence = make_sequence([9, 9], 0, 1), scored_sequence([1, 2, 3, 4], 1)
    prepared_batch = build_batch([(other, 1), (sequence, 4)], (), CONTEXT)
    assert prepared_batch.batch.logits_indices == [0, 1, 2, 3, 4]
    assert prepared_batch.sampled_sequences == [other, sequence] and prepared_batch.sampled_rows == [0, 4]
    assert [
        (item.sequence, item.first_row, item.token_ids) for item in prepared_batch.prompt_logprob_rows
    ] == [(sequence, 1, [2, 3, 4])]


def test_a_chunk_of_a_scored_prompt_scores_the_token_after_it_as_well() -> None:
    sequence = scored_sequence([1, 2, 3, 4, 5], 0, cached=2, already=3)
    prepared_batch = build_batch([(sequence, 2)], (), CONTEXT)
    assert (
        prepared_batch.batch.logits_indices == [0, 1]
        and prepared_batch.prompt_logprob_rows[0].token_ids == [4, 5]
        and not prepared_batch.sampled_sequences
    )


def test_a_prompt_scored_before_a_preemption_is_not_scored_again() -> None:
    sequence = scored_sequence([1, 2, 3, 4], 0, cached=0, already=3)
    prepared_batch = build_batch([(sequence, 4)], (), CONTEXT)
    assert (
        prepared_batch.prompt_logprob_rows[0].token_ids == [4]
        and prepared_batch.batch.logits_indices == [2, 3]
        and prepared_batch.sampled_rows == [1]
    )


def test_generated_tokens_are_not_scored() -> None:
    sequence = scored_sequence([1, 2], 0, cached=2, already=2)
    sequence.token_ids.append(3)
    prepared_batch = build_batch([(sequence, 1)], (), CONTEXT)
    assert not prepared_batch.prompt_logprob_rows and prepared_batch.batch.logits_indices == [0]


def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    prepared_batch = build_batch([(scored_sequence([1], 0), 1)], (), CONTEXT)
    assert not prepared_batch.prompt_logprob_rows and prepared_batch.batch.logits_indices == [0]


def test_a_pending_token_is_computed_behind_the_tokens_in_flight() -> None:
    ids = torch.tensor([7, 8, 9])
    known, pending, other = (
        make_sequence([1, 2, 3, 4], 0, 1),
        make_sequence([5, 6], 1, 1),
        make_sequence([7], 2),
    )
    known.num_in_flight_tokens = pending.num_in_flight_tokens = other.num_in_flight_tokens = 1
    pending.num_pending_tokens = other.num_pending_tokens = 1
    sampled_ids = SampledIds(ids, {pending.id: 2, other.id: 0})
    prepared_batch = build_batch([(known, 2), (pending, 1), (other, 1)], (), CONTEXT, sampled_ids)
    assert prepared_batch.batch == Batch(
        [3, 4, 0, 0],
        query_start_loc=[0, 2, 3, 4],
        num_computed_tokens=[2, 2, 1],
        rows=[0, 1, 2],
        logits_indices=[1, 2, 3],
        pending_tokens=PendingTokens([2, 3], [2, 0], ids),
    )
    assert prepared_batch.sampled_sequences == [known, pending, other]


def test_rows_of_sequences_that_have_ended_are_dropped() -> None:
    decoding, chunk, finished = (
        make_sequence([1, 2, 3], 0, 2),
        make_sequence([4, 5, 6, 7], 1, 1),
        make_sequence([8, 9], 2),
    )
    prepared_batch = build_batch([(decoding, 1), (chunk, 2), (finished, 2)], (), CONTEXT)
    prepared_batch.drop({finished.id})
    assert (prepared_batch.sampled_sequences, prepared_batch.sampled_rows) == ([decoding], [0])
    assert prepared_batch.nan_checks == {chunk.id: 1}
    prepared_batch.drop({decoding.id, chunk.id})
    assert not prepared_batch.sampled_rows and not prepared_batch.nan_checks
