"""Stop strings end an answer at the same character for any chunking of its text."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.stop_strings import StopStrings, TokenEndStops

letters = st.text("abc", max_size=30)


class CountedEdges(list[dict[str, int]]):
    """The edges of an automaton; counts the look-ups of its states."""

    lookups = 0

    def __getitem__(self, state: Any) -> Any:
        self.lookups += 1
        return super().__getitem__(state)


def match_stream(stops: StopStrings, chunks: list[str]) -> tuple[str, str]:
    """The emitted text, and the stop string that ended it."""
    matcher = stops.new_matcher()
    emitted = ""
    for chunk in chunks:
        text, hit = matcher.feed(chunk)
        emitted += text
        if hit:
            return emitted, hit
    return emitted + matcher.flush(), ""


def plain(strings: list[str], text: str) -> tuple[str, str]:
    """The rule itself: the stop string completed first ends the text; if several are, the longest."""
    for end in range(1, len(text) + 1):
        completed = [string for string in strings if text[:end].endswith(string)]
        if completed:
            hit = max(completed, key=len)
            return text[: end - len(hit)], hit
    return text, ""


@given(
    strings=st.lists(st.text("abc", min_size=1, max_size=5), max_size=6),
    text=letters,
    cuts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=300, deadline=None)
def test_any_chunking_ends_where_the_rule_says(strings: list[str], text: str, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]
    assert match_stream(StopStrings(strings), chunks) == plain(strings, text)


def test_only_the_possible_beginning_of_a_stop_string_is_withheld() -> None:
    matcher = StopStrings(["\nUser:"]).new_matcher()
    assert [matcher.feed(chunk) for chunk in ("Hello", "\nUs", "e", "less", " x")] == [
        ("Hello", ""),
        ("", ""),
        ("", ""),
        ("\nUseless", ""),
        (" x", ""),
    ]


def test_neither_a_stop_string_nor_text_after_it_is_emitted() -> None:
    assert StopStrings(["END"]).new_matcher().feed("so be it END of it") == ("so be it ", "END")


@pytest.mark.parametrize("chunks", [[", but"], [",", " but"]])
def test_the_stop_string_completed_first_wins_for_any_chunking(chunks: list[str]) -> None:
    assert match_stream(StopStrings([",", ", but"]), chunks) == ("", ",")


def test_the_longer_of_two_stop_strings_completed_at_once_is_removed() -> None:
    assert StopStrings(["d", "world"]).new_matcher().feed("hello world") == ("hello ", "world")


def test_without_stop_strings_everything_is_emitted() -> None:
    assert match_stream(StopStrings([]), ["a", "b"]) == ("ab", "")


def test_hostile_strings_cost_linear_time() -> None:
    stops = StopStrings(["a" * size + "b" for size in range(1, 1000)][::16])
    stops.edges = counted_edges = CountedEdges(stops.edges)
    matcher = stops.new_matcher()
    for _ in range(2000):
        matcher.feed("aaaaaaaaaa")
    # Per character at most one failure link, one match and one step.
    assert 20_000 <= counted_edges.lookups <= 60_000


@given(
    dropped=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
    included=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
    text=letters,
    cuts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=300, deadline=None)
def test_an_included_stop_string_ends_the_text_and_is_part_of_it(
    dropped: list[str], included: list[str], text: str, cuts: set[int]
) -> None:
    edges = [0, *sorted(cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]
    before, hit = plain(dropped + included, text)
    assert match_stream(StopStrings(dropped, included), chunks) == (
        before + (hit if hit in included else ""),
        hit,
    )


def test_nothing_is_withheld_for_included_stop_strings() -> None:
    matcher = StopStrings(["###"], ["END"]).new_matcher()
    outputs = [matcher.feed(chunk) for chunk in ("x E", "N", "#", "#E", "ND.")]
    assert outputs == [("x E", ""), ("N", ""), ("", ""), ("##E", ""), ("ND", "END")]


def read(tokens: list[str], *strings: str) -> str:
    """The stop string that ends the text of these tokens."""
    matcher = TokenEndStops(strings).new_matcher()
    return next((hit for token in tokens if (hit := matcher.feed(token)[1])), "")


def test_a_string_is_found_across_tokens_and_at_a_tokens_end() -> None:
    assert read(["Hel", "lo", "."], "ello") == "ello"
    assert read(["Hello", "."], "lo") == "lo"


def test_a_string_within_a_token_is_ignored() -> None:
    assert read(["Hello", "."], "ell") == ""
    assert read(["a.\n", "b"], ".") == ""


def test_the_longer_of_two_strings_ends_the_text() -> None:
    assert read(["ab"], "b", "ab") == "ab"


def test_a_special_token_matches_by_its_name_and_adds_no_text() -> None:
    matcher = TokenEndStops(["<|end|>"]).new_matcher()
    assert matcher.feed("a") == ("a", "")
    assert matcher.feed("", "<|end|>") == ("", "<|end|>")


def test_without_strings_nothing_ends() -> None:
    assert read(["a", "b"]) == ""


def test_each_answer_has_its_own_matcher() -> None:
    endings = TokenEndStops(["ab"])
    one, other = endings.new_matcher(), endings.new_matcher()
    assert one.feed("a") == ("a", "")
    assert other.feed("b") == ("b", "")
    assert one.feed("b") == ("b", "ab")
