"""A plan becomes a Batch."""

from inference.engine.pack import pack
from inference.engine.sequence import Score, Sequence, Task
from inference.model.batch import Batch, Swap

CONTEXT = 100


def sequence(ids: list[int], row: int, cached: int = 0, max_tokens: int = 10, **options: object) -> Sequence:
    source = options.pop("source", ())
    one = Sequence(row, Task(tuple(ids), max_tokens, **options), None, list(ids), source)
    one.row, one.cached = row, cached
    return one


def scored(ids: list[int], row: int, cached: int = 0, already: int = 1, **options: object) -> Sequence:
    one = sequence(ids, row, cached, prompt_logprobs=0, **options)
    one.prompt_scores = [Score()] * already
    return one


def test_rows_at_any_stage_share_a_batch() -> None:
    decoding, part, last = (
        sequence([1, 2, 3], 0, 2),
        sequence([4, 5, 6, 7], 1, 1),
        sequence([8, 9, 10], 3, 1),
    )
    packed = pack([(decoding, 1), (part, 2), (last, 2)], (), CONTEXT)
    assert packed.batch == Batch(
        [3, 5, 6, 9, 10], starts=[0, 1, 3, 5], cached=[2, 1, 1], rows=[0, 1, 3], want=[0, 2, 4]
    )
    assert packed.sampled == [decoding, last] and packed.picks == [0, 2]
    assert packed.proofs == {part.id: 1}


def test_moves_travel_with_the_batch() -> None:
    moves = [Swap(0, 1, 5)]
    assert pack([(sequence([1], 0), 1)], moves, CONTEXT).batch.moves is moves


def test_an_encoders_input_travels_with_the_row_that_begins() -> None:
    begins, goes_on = sequence([1], 0, source=(5, 6)), sequence([1, 2], 1, 1, source=(7, 8))
    assert pack([(begins, 1), (goes_on, 1)], (), CONTEXT).batch.sources == {0: (5, 6)}


def test_a_sequence_that_may_gain_nothing_is_only_proved() -> None:
    nothing_asked, full = sequence([1, 2], 0, max_tokens=0), sequence([1] * CONTEXT, 1)
    packed = pack([(nothing_asked, 2), (full, CONTEXT)], (), CONTEXT)
    assert packed.batch.want == [1, CONTEXT + 1] and packed.sampled == []
    assert packed.proofs == {0: 0, 1: 1}


def test_a_piece_that_is_scored_to_its_end_needs_no_proof() -> None:
    packed = pack([(scored([1, 2, 3, 4], 0), 2), (scored([5, 6], 1, max_tokens=0), 2)], (), CONTEXT)
    assert packed.batch.want == [0, 1, 2, 3] and packed.proofs == {1: 3}


def test_a_scored_prompt_wants_the_logits_before_each_of_its_tokens() -> None:
    other, one = sequence([9, 9], 0, 1), scored([1, 2, 3, 4], 1)
    packed = pack([(other, 1), (one, 4)], (), CONTEXT)
    assert packed.batch.want == [0, 1, 2, 3, 4]
    assert packed.sampled == [other, one] and packed.picks == [0, 4]
    assert [(part.sequence, part.first, part.ids) for part in packed.scored] == [(one, 1, [2, 3, 4])]


def test_a_piece_of_a_scored_prompt_scores_the_token_after_it_as_well() -> None:
    one = scored([1, 2, 3, 4, 5], 0, cached=2, already=3)
    packed = pack([(one, 2)], (), CONTEXT)
    assert packed.batch.want == [0, 1] and packed.scored[0].ids == [4, 5] and not packed.sampled


def test_a_prompt_scored_before_a_preemption_is_not_scored_again() -> None:
    one = scored([1, 2, 3, 4], 0, cached=0, already=3)
    packed = pack([(one, 4)], (), CONTEXT)
    assert packed.scored[0].ids == [4] and packed.batch.want == [2, 3] and packed.picks == [1]


def test_generated_tokens_are_not_scored() -> None:
    one = scored([1, 2], 0, cached=2, already=2)
    one.tokens.append(3)
    packed = pack([(one, 1)], (), CONTEXT)
    assert not packed.scored and packed.batch.want == [0]


def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    packed = pack([(scored([1], 0), 1)], (), CONTEXT)
    assert not packed.scored and packed.batch.want == [0]
