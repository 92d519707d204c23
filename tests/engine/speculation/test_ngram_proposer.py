"""Which drafts are proposed, for which sequences and how many; test_drafts.py tests their acceptance."""

import random

import pytest

from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import MAX_ACCEPTANCE, best_num_drafts, step_duration
from inference.engine.speculation.ngram_proposer import INITIAL_ACCEPTANCE, NgramProposer, NgramTable
from tests.engine.generation_requests import make_request

MOST = 8


def make_manager(context: int = 256, columns: int = 256) -> ContiguousKVCacheManager:
    manager = ContiguousKVCacheManager(
        max_sequences=8, context=context, kv_capacity=8 * 256, page_size=16, prefix_caching=True
    )
    manager.num_columns = columns
    return manager


def make_sequence(
    tokens: list[int], id: int = 0, num_generated: int = 1, max_tokens: int = 100, **options: object
) -> Sequence:
    """A decoding sequence with `num_generated` generated tokens."""
    prompt = tokens[:-num_generated]
    sequence = Sequence(id, make_request(prompt, max_tokens), None, prompt, **options)
    sequence.token_ids = tokens
    sequence.num_computed_tokens = len(tokens) - 1
    return sequence


def confident_proposer(*sequences: Sequence, most: int = MOST, **shape: int) -> NgramProposer:
    """A proposer whose acceptance estimate of these sequences is at its maximum."""
    proposer = NgramProposer(make_manager(**shape), most)
    proposer.propose([(sequence, 1) for sequence in sequences], 512)
    for table in proposer._tables.values():
        table.acceptance = MAX_ACCEPTANCE
    return proposer


def propose_drafts(sequence: Sequence, **shape: int) -> list[int]:
    confident_proposer(sequence, **shape).propose([(sequence, 1)], 512)
    return sequence.draft_token_ids


def test_a_draft_is_the_text_after_the_previous_occurrence_of_the_last_tokens() -> None:
    table = NgramTable()
    table.update([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], 4)
    assert table.proposal == [4, 5, 6, 9]


def test_the_latest_occurrence_counts() -> None:
    table = NgramTable()
    table.update([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], 2)
    assert table.proposal == [5, 1]


def test_a_draft_that_reaches_the_end_continues_from_its_own_beginning() -> None:
    table = NgramTable()
    table.update([7, 1, 2, 1, 2, 1, 2], 5)
    assert table.proposal == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("tokens", ([], [1], [1, 2, 3], [1, 2, 3, 4, 5], [3, 2, 1, 0, 1, 2]))
def test_there_is_no_draft_where_nothing_repeats(tokens: list[int]) -> None:
    table = NgramTable()
    table.update(tokens, 4)
    assert table.proposal == []


def test_indexing_in_chunks_equals_indexing_at_once() -> None:
    chance = random.Random(5)
    tokens = chance.choices(range(4), k=3000)
    growing, at = NgramTable(), 1500
    while at < len(tokens):
        growing.update(tokens[:at], 6)
        at += chance.choice((1, 1, 1, 4))
        at_once = NgramTable()
        at_once._index_ngrams(tokens[:1024])
        at_once._index_ngrams(tokens[:at])
        growing.update(tokens[:at], 6)
        at_once.update(tokens[:at], 6)
        assert growing.proposal == at_once.proposal


def test_acceptance_is_estimated_whether_tokens_were_drafted_or_not() -> None:
    table, tokens = NgramTable(), [1, 2, 3, 4] * 3
    table.update(tokens, MOST)
    for token in [1, 2, 3, 4] * 10:
        tokens.append(token)
        table.update(tokens, MOST)
    assert 0.9 < table.acceptance <= MAX_ACCEPTANCE
    for _ in range(40):
        tokens.append(table.proposal[0] + 1 if table.proposal else 1)
        table.update(tokens, MOST)
    assert table.acceptance < INITIAL_ACCEPTANCE


def test_acceptance_is_unchanged_by_a_step_without_tokens() -> None:
    table, tokens = NgramTable(), [1, 2, 3, 4] * 3
    table.update(tokens, MOST)
    table.update(tokens, MOST)
    assert table.acceptance == INITIAL_ACCEPTANCE and table.proposal == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_sequence_that_repeats_itself_gets_drafts() -> None:
    assert propose_drafts(make_sequence([1, 2, 3, 4] * 3)) == [1, 2, 3, 4, 1, 2, 3, 4]


def test_drafts_and_the_token_after_them_stay_within_the_limits() -> None:
    assert len(propose_drafts(make_sequence([1, 2, 3, 4] * 3, max_tokens=5))) == 3
    assert len(propose_drafts(make_sequence([1, 2, 3, 4] * 3, max_tokens=2))) == 0
    assert len(propose_drafts(make_sequence([1, 2, 3, 4] * 3), context=15)) == 2


def test_drafts_fit_the_free_kv_memory() -> None:
    assert len(propose_drafts(make_sequence([1, 2, 3, 4] * 3), columns=14)) == 2
    assert len(propose_drafts(make_sequence([1, 2, 3, 4] * 3), columns=12)) == 0


def test_there_are_no_drafts_under_a_grammar() -> None:
    assert propose_drafts(make_sequence([1, 2, 3, 4] * 3, matcher=object())) == []


def test_there_are_no_drafts_before_the_first_token_or_during_a_prefill() -> None:
    begins, goes_on = make_sequence([1, 2, 3, 4] * 3), make_sequence([1, 2, 3, 4] * 3, id=1)
    proposer = confident_proposer(begins, goes_on)
    begins.num_prompt_tokens, begins.num_computed_tokens = 12, 5
    proposer.propose([(begins, 7), (goes_on, 1)], 512)
    assert begins.draft_token_ids == goes_on.draft_token_ids == []
    begins.num_computed_tokens = 11
    proposer.propose([(begins, 1), (goes_on, 1)], 512)
    assert begins.draft_token_ids == [] and goes_on.draft_token_ids


def test_drafts_of_the_previous_step_are_removed() -> None:
    sequence = make_sequence([1, 2, 3, 4] * 3)
    proposer = confident_proposer(sequence)
    proposer.propose([(sequence, 1)], 512)
    assert sequence.draft_token_ids
    sequence.num_computed_tokens = 3
    proposer.propose([(sequence, 9)], 512)
    assert sequence.draft_token_ids == []


def test_a_step_with_drafts_stays_within_its_budget() -> None:
    sequence = make_sequence([1, 2, 3, 4] * 3)
    confident_proposer(sequence, most=100).propose([(sequence, 1)], 6)
    assert len(sequence.draft_token_ids) == 5


def test_wider_batches_get_fewer_drafts() -> None:
    lengths = []
    for width in (1, 2, 4, 8, 16, 32):
        many = [make_sequence([1, 2, 3, 4] * 3, id=id) for id in range(width)]
        proposer = confident_proposer(*many)
        proposer.propose([(sequence, 1) for sequence in many], 512)
        lengths.append(len(many[0].draft_token_ids))
    assert lengths == sorted(lengths, reverse=True) and lengths[0] == MOST and lengths[-1] == 0


def test_a_draft_of_low_acceptance_is_not_computed() -> None:
    sequence, other = make_sequence([1, 2, 3, 4] * 3), make_sequence([1, 2, 3, 4] * 3, id=1)
    proposer = confident_proposer(sequence, other)
    proposer._tables[0].acceptance = 0.01
    proposer.propose([(sequence, 1), (other, 1)], 512)
    assert sequence.draft_token_ids == [] and other.draft_token_ids


def best_of(acceptances: list[float], num_rows: int, most: int = MOST) -> int:
    return best_num_drafts(acceptances, num_rows, [step_duration(n, num_rows) for n in range(most + 1)])


def test_more_drafts_are_computed_for_high_acceptance_and_few_rows() -> None:
    assert [best_of([trust], 1) for trust in (0.01, 0.3, 0.5, 0.9)] == [0, 0, 3, 8]
    assert best_of([0.9] * 2, 2) > best_of([0.9] * 8, 8) > best_of([0.9, *[0.1] * 7], 8)
    assert best_of([], 3) == best_of([0.9], 1, most=0) == 0


def test_there_are_no_drafts_where_the_rows_fill_the_budget() -> None:
    sequences = [make_sequence([1, 2, 3, 4] * 3, id=id) for id in range(3)]
    proposer = confident_proposer(*sequences)
    assert proposer.propose([(sequence, 1) for sequence in sequences], 2) == 0


def test_tables_of_finished_sequences_are_dropped() -> None:
    sequence, other = make_sequence([1, 2, 3, 4] * 3), make_sequence([1, 2, 3, 4] * 3, id=1)
    proposer = confident_proposer(sequence, other)
    proposer.propose([(sequence, 1)], 512)
    assert set(proposer._tables) == {0}
