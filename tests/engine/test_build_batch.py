"""The Batch built from the scheduler's output."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from inference.engine.build_batch import PendingIds, build_batch
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob
from inference.model.batch import PendingTokens, Swap, make_batch
from tests.engine.generation_requests import make_request

CONTEXT, COLUMNS = 100, 128


@dataclass
class MemoryShape:
    """What build_batch reads of a KVCacheManager."""

    context: int = CONTEXT
    slots_per_page: int = COLUMNS


MEMORY: Any = MemoryShape()


def make_sequence(
    ids: list[int], row: int, cached: int = 0, max_tokens: int = 10, **options: object
) -> Sequence:
    source = options.pop("source", ())
    sequence = Sequence(row, make_request(tuple(ids), max_tokens, **options), None, list(ids), source)
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
    prepared_batch = build_batch([(decoding, 1), (chunk, 2), (last, 2)], (), MEMORY)
    assert prepared_batch.batch == make_batch(
        [3, 5, 6, 9, 10],
        query_start_loc=[0, 1, 3, 5],
        num_computed_tokens=[2, 1, 1],
        rows=[0, 1, 3],
        logits_indices=[0, 2, 4],
        page_size=COLUMNS,
    )
    assert prepared_batch.batch.positions == [2, 1, 2, 1, 2]
    assert prepared_batch.batch.slot_mapping == [2, 129, 130, 3 * 128 + 1, 3 * 128 + 2]
    assert prepared_batch.batch.seq_lens == [3, 3, 3]
    assert prepared_batch.sampled_sequences == [decoding, last] and prepared_batch.sampled_rows == [0, 2]
    assert prepared_batch.nan_checks == {chunk.id: 1}


def test_cache_ops_are_passed_with_the_batch() -> None:
    cache_ops = [Swap(0, 1, 5)]
    assert build_batch([(make_sequence([1], 0), 1)], cache_ops, MEMORY).batch.cache_ops is cache_ops


def test_encoder_inputs_are_passed_for_rows_that_begin() -> None:
    begins, goes_on = make_sequence([1], 0, source=(5, 6)), make_sequence([1, 2], 1, 1, source=(7, 8))
    assert build_batch([(begins, 1), (goes_on, 1)], (), MEMORY).batch.encoder_inputs == {0: (5, 6)}


def test_a_sequence_that_may_gain_no_token_is_only_checked_for_nan() -> None:
    no_output, full = make_sequence([1, 2], 0, max_tokens=0), make_sequence([1] * CONTEXT, 1)
    prepared_batch = build_batch([(no_output, 2), (full, CONTEXT)], (), MEMORY)
    assert prepared_batch.batch.logits_indices == [1, CONTEXT + 1] and prepared_batch.sampled_sequences == []
    assert prepared_batch.nan_checks == {0: 0, 1: 1}


def test_a_chunk_that_is_scored_to_its_end_needs_no_nan_check() -> None:
    prepared_batch = build_batch(
        [(scored_sequence([1, 2, 3, 4], 0), 2), (scored_sequence([5, 6], 1, max_tokens=0), 2)], (), MEMORY
    )
    assert prepared_batch.batch.logits_indices == [0, 1, 2, 3] and prepared_batch.nan_checks == {1: 3}


def test_a_scored_prompt_needs_the_logits_before_each_of_its_tokens() -> None:
    other, sequence = make_sequence([9, 9], 0, 1), scored_sequence([1, 2, 3, 4], 1)
    prepared_batch = build_batch([(other, 1), (sequence, 4)], (), MEMORY)
    assert prepared_batch.batch.logits_indices == [0, 1, 2, 3, 4]
    assert prepared_batch.sampled_sequences == [other, sequence] and prepared_batch.sampled_rows == [0, 4]
    assert [
        (item.sequence, item.first_row, item.token_ids) for item in prepared_batch.prompt_logprob_rows
    ] == [(sequence, 1, [2, 3, 4])]


def test_a_chunk_of_a_scored_prompt_scores_the_token_after_it_as_well() -> None:
    sequence = scored_sequence([1, 2, 3, 4, 5], 0, cached=2, already=3)
    prepared_batch = build_batch([(sequence, 2)], (), MEMORY)
    assert (
        prepared_batch.batch.logits_indices == [0, 1]
        and prepared_batch.prompt_logprob_rows[0].token_ids == [4, 5]
        and not prepared_batch.sampled_sequences
    )


def test_a_prompt_scored_before_a_preemption_is_not_scored_again() -> None:
    sequence = scored_sequence([1, 2, 3, 4], 0, cached=0, already=3)
    prepared_batch = build_batch([(sequence, 4)], (), MEMORY)
    assert (
        prepared_batch.prompt_logprob_rows[0].token_ids == [4]
        and prepared_batch.batch.logits_indices == [2, 3]
        and prepared_batch.sampled_rows == [1]
    )


def test_generated_tokens_are_not_scored() -> None:
    sequence = scored_sequence([1, 2], 0, cached=2, already=2)
    sequence.token_ids.append(3)
    prepared_batch = build_batch([(sequence, 1)], (), MEMORY)
    assert not prepared_batch.prompt_logprob_rows and prepared_batch.batch.logits_indices == [0]


def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    prepared_batch = build_batch([(scored_sequence([1], 0), 1)], (), MEMORY)
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
    sampled_ids = PendingIds(ids, {pending.id: 2, other.id: 0})
    prepared_batch = build_batch([(known, 2), (pending, 1), (other, 1)], (), MEMORY, sampled_ids)
    batch = make_batch(
        [3, 4, 0, 0],
        query_start_loc=[0, 2, 3, 4],
        num_computed_tokens=[2, 2, 1],
        rows=[0, 1, 2],
        logits_indices=[1, 2, 3],
        page_size=COLUMNS,
    )
    assert prepared_batch.batch == replace(batch, pending_tokens=PendingTokens([2, 3], [2, 0], ids))
    assert prepared_batch.sampled_sequences == [known, pending, other]


def test_rows_of_sequences_that_have_ended_are_dropped() -> None:
    decoding, chunk, finished = (
        make_sequence([1, 2, 3], 0, 2),
        make_sequence([4, 5, 6, 7], 1, 1),
        make_sequence([8, 9], 2),
    )
    prepared_batch = build_batch([(decoding, 1), (chunk, 2), (finished, 2)], (), MEMORY)
    prepared_batch.drop({finished.id})
    assert (prepared_batch.sampled_sequences, prepared_batch.sampled_rows) == ([decoding], [0])
    assert prepared_batch.nan_checks == {chunk.id: 1}
    prepared_batch.drop({decoding.id, chunk.id})
    assert not prepared_batch.sampled_rows and not prepared_batch.nan_checks


def test_tokens_have_the_positions_and_slots_of_their_pages_drafts_included() -> None:
    prompt, drafted = make_sequence([1, 2, 3, 4, 5, 6], 0, 1), make_sequence([7, 8, 9, 10], 1, 3)
    prompt.pages, drafted.pages = [5, 2], [7, 0]
    drafted.draft_token_ids = [11, 12]
    batch = build_batch([(prompt, 5), (drafted, 1)], (), MemoryShape(slots_per_page=4)).batch
    assert batch.page_table == ([5, 2], [7, 0]) and batch.seq_lens == [6, 6]
    assert batch.positions == [1, 2, 3, 4, 5, 3, 4, 5]
    assert batch.slot_mapping == [21, 22, 23, 8, 9, 31, 0, 1]
    assert batch.num_computed_tokens == [1, 3]
