"""The size of a pattern with its repetitions written out, before it is compiled."""

import time

import pytest
import regex

from api.neodim.pattern_size import NUM_FOLDED_STRINGS, count_elements


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("a{3000}", 3_000),
        ("(?:a{3000}){3000}", 9_000_000),
        ("(?:a{2,}){5,9}", 3 * 6),
        ("((a{1,50}){1,50}){1,50}", 2**3),
        ("(?x) a { 3000 } # (((", 3_000),
        ("(?:a{3000})??", 3_000),
        ("(?=(?:a{50}){50})|(?<!a{500})", 3_000),
        (r"[(]\({3000}", 3_000),
        (r"(?if)[\x00-\U0010ffff]{30}", 30 * NUM_FOLDED_STRINGS),
    ],
)
def test_what_must_be_repeated_counts_as_often_as_it_is_written_out(pattern: str, size: int) -> None:
    assert size <= count_elements(pattern) <= 1.2 * size + 30


def test_ninety_nested_repetitions_are_counted_at_once() -> None:
    started_at = time.thread_time()
    assert count_elements("(" * 90 + "a" + "){1,50}" * 90) > 2**90
    assert time.thread_time() - started_at < 0.5


def test_a_large_range_of_optional_repetitions_is_small() -> None:
    assert count_elements(r"(?:.{0,300}\n){0,1000}") < 20


@pytest.mark.parametrize("pattern", ["[", "(?<x", "*", "a{2,1}"])
def test_an_invalid_pattern_is_no_pattern(pattern: str) -> None:
    with pytest.raises(regex.error):
        count_elements(pattern)
