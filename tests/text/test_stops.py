import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.stops import Stops

letters = st.text("abc", max_size=30)


def read(stops: Stops, pieces: list[str]) -> tuple[str, str]:
    """(the text told, the stop string that ended it)"""
    watch = stops.watch()
    told = ""
    for piece in pieces:
        text, hit = watch.feed(piece)
        told += text
        if hit:
            return told, hit
    return told + watch.flush(), ""


def plain(strings: list[str], text: str) -> tuple[str, str]:
    """The rule itself: the first to be completed, of those the longest."""
    for end in range(1, len(text) + 1):
        found = [string for string in strings if text[:end].endswith(string)]
        if found:
            hit = max(found, key=len)
            return text[: end - len(hit)], hit
    return text, ""


@given(
    strings=st.lists(st.text("abc", min_size=1, max_size=5), max_size=6),
    text=letters,
    cuts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=300, deadline=None)
def test_any_split_ends_where_the_rule_says(strings: list[str], text: str, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert read(Stops(strings), pieces) == plain(strings, text)


def test_only_a_possible_head_is_held_back() -> None:
    watch = Stops(["\nUser:"]).watch()
    assert [watch.feed(piece) for piece in ("Hello", "\nUs", "e", "less", " x")] == [
        ("Hello", ""),
        ("", ""),
        ("", ""),
        ("\nUseless", ""),
        (" x", ""),
    ]


def test_nothing_of_a_stop_string_or_behind_it_is_told() -> None:
    assert Stops(["END"]).watch().feed("so be it END of it") == ("so be it ", "END")


@pytest.mark.parametrize("pieces", [[", but"], [",", " but"]])
def test_the_first_completed_wins_however_the_text_comes(pieces: list[str]) -> None:
    assert read(Stops([",", ", but"]), pieces) == ("", ",")


def test_of_two_completed_at_once_the_longer_is_cut() -> None:
    assert Stops(["d", "world"]).watch().feed("hello world") == ("hello ", "world")


def test_without_stop_strings_all_is_told() -> None:
    assert read(Stops([]), ["a", "b"]) == ("ab", "")


def test_hostile_strings_cost_linear_time() -> None:
    stops = Stops(["a" * size + "b" for size in range(1, 1000)][::16])
    watch = stops.watch()
    began = time.perf_counter()
    for _ in range(2000):
        watch.feed("aaaaaaaaaa")
    assert time.perf_counter() - began < 2


@given(
    dropped=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
    kept=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
    text=letters,
    cuts=st.sets(st.integers(0, 30)),
)
@settings(max_examples=300, deadline=None)
def test_what_is_kept_ends_the_text_and_is_part_of_it(
    dropped: list[str], kept: list[str], text: str, cuts: set[int]
) -> None:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    before, hit = plain(dropped + kept, text)
    assert read(Stops(dropped, kept), pieces) == (before + (hit if hit in kept else ""), hit)


def test_nothing_is_held_back_for_what_is_kept() -> None:
    watch = Stops(["###"], ["END"]).watch()
    told = [watch.feed(piece) for piece in ("x E", "N", "#", "#E", "ND.")]
    assert told == [("x E", ""), ("N", ""), ("", ""), ("##E", ""), ("ND", "END")]
