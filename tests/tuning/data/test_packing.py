"""Packed rows lose nothing, keep their positions, and fill their sequences."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tuning.data.examples import Example
from tuning.data.packing import pack

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=60)


def example(length: int, line: int) -> Example:
    return Example(tuple(range(line, line + length)), (0.0, *[1.0] * (length - 1)), line)


@given(LENGTHS, st.integers(30, 64))
def test_every_row_is_in_one_sequence_as_it_was(lengths: list[int], max_length: int) -> None:
    examples = [example(length, i + 1) for i, length in enumerate(lengths)]
    rows = []
    for sequence in pack(examples, max_length):
        assert len(sequence.token_ids) == len(sequence.weights) == len(sequence.position_ids) <= max_length
        starts = [
            *(i for i, position in enumerate(sequence.position_ids) if position == 0),
            len(sequence.token_ids),
        ]
        for line, (start, end) in zip(sequence.lines, pairwise(starts), strict=True):
            rows.append(Example(sequence.token_ids[start:end], sequence.weights[start:end], line))
            assert sequence.position_ids[start:end] == tuple(range(end - start))
    assert sorted(rows, key=lambda each: each.line) == examples


@given(LENGTHS)
def test_no_two_sequences_fit_into_one(lengths: list[int]) -> None:
    sequences = pack([example(length, i) for i, length in enumerate(lengths)], 30)
    sizes = sorted(len(each.token_ids) for each in sequences)
    assert all(first + second > 30 for first, second in pairwise(sizes))


def test_without_a_limit_the_longest_row_is_the_limit() -> None:
    sequences = pack([example(length, i) for i, length in enumerate((3, 5, 2, 4, 1))], 0)
    assert [len(each.token_ids) for each in sequences] == [5, 5, 5]
    assert [each.lines for each in sequences] == [(0, 2), (1,), (3, 4)]


def test_a_large_dataset_is_packed_tightly() -> None:
    lengths = [1 + (i * 7919) % 700 for i in range(3_000)]
    sequences = pack([example(length, i) for i, length in enumerate(lengths)], 2048)
    assert sum(lengths) / (2048 * len(sequences)) > 0.99


def test_no_rows_are_no_sequences() -> None:
    assert pack([], 10) == []
