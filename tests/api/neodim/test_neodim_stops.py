"""Where a text that grows token by token stops."""

import pytest

from api.neodim.stops import ALLOWANCE_S, EARNED_S, MAX_CHARS, MAX_STOPS, Hit, Watch, finder
from inference.errors import BadRequest


def stopped(
    pieces: list[str], *stops: str, kind: str = "string", required: int = 1
) -> tuple[int, Hit] | None:
    """(the token with which it stops, where it does)"""
    watch = Watch(finder(stops, kind), required)
    for piece in pieces:
        if watch.feed(piece):
            assert watch.hit is not None
            return watch.tokens, watch.hit
    return None


def test_the_earliest_stops_and_of_two_at_one_place_the_longest() -> None:
    assert stopped(["one, but"], ",", ", but", "n") == (1, Hit(1, "n", "n"))
    assert stopped(["one, but"], ",", ", but") == (1, Hit(3, ", but", ", but"))
    assert stopped(["one", ",", " but"], ",", ", but") == (2, Hit(3, ",", ","))


def test_a_stop_string_may_come_in_pieces() -> None:
    assert stopped(["a\n", "\n", "", ">b"], "\n\n>") == (4, Hit(1, "\n\n>", "\n\n>"))
    assert stopped(["a\n", ">\n", ">b"], "\n\n>") is None


def test_nothing_stops_a_text_without_stop_strings() -> None:
    assert stopped(["a", "b"]) is None


def test_a_pattern_that_looks_ahead_waits_for_what_follows() -> None:
    end = r"(?<!\b(?:Mr|Dr))[.!?](?=\s)"
    assert stopped(["Hi Mr", ".", " X", ".", " Y"], end, kind="regex") == (5, Hit(8, end, "."))


def test_hits_in_a_row_are_required_and_counted_anew_after_a_miss() -> None:
    pieces = [" Brad", "bury", " Brad", " x"]
    assert stopped(pieces, "Brad(?!bury)", kind="regex") == (1, Hit(1, "Brad(?!bury)", "Brad"))
    assert stopped(pieces, "Brad(?!bury)", kind="regex", required=2) == (4, Hit(10, "Brad(?!bury)", "Brad"))
    assert stopped(pieces, "Brad(?!bury)", kind="regex", required=3) is None
    assert stopped(["cat", " sat", " on"], "cat", required=2) == (2, Hit(0, "cat", "cat"))


def test_a_pattern_may_stop_before_what_it_sees() -> None:
    assert stopped(["Hi", "\n"], r"(?=\n)", kind="regex") == (2, Hit(2, r"(?=\n)", ""))


@pytest.mark.parametrize("pattern", ["[", "(?<x", r"\L<words>", "a{99999999999}", "(" * 900 + ")" * 900, "*"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="stop_strings hold a pattern that cannot be used"):
        finder([pattern], "regex")


@pytest.mark.parametrize(
    "pattern", [r"(?:a{1,10000}){1,10000}b", "(?R)", "(?b)(?:foobarbazfoobarbaz){e<=30}$"]
)
def test_a_pattern_that_searches_for_ever_is_given_up(pattern: str) -> None:
    with pytest.raises(BadRequest, match="takes too long to find"):
        stopped(["a" * 5000], pattern, kind="regex")


def test_the_time_for_patterns_is_the_whole_requests() -> None:
    with pytest.raises(BadRequest, match="takes too long to find"):
        stopped(["a" * 1500] + ["a"] * 2000, r"(a+a+)+b", "a*a*a*b", kind="regex")


def test_many_patterns_have_no_more_time_than_one() -> None:
    found = finder([f"x{number}" for number in range(MAX_STOPS)], "regex")
    for _ in range(100):
        found.find("a", 0)
    assert found.left_s <= ALLOWANCE_S + 100 * EARNED_S


def test_stops_are_few_and_short() -> None:
    with pytest.raises(BadRequest, match=f"at most {MAX_STOPS}"):
        finder(["a"] * (MAX_STOPS + 1), "string")
    with pytest.raises(BadRequest, match=f"at most {MAX_CHARS} characters"):
        finder(["a" * (MAX_CHARS + 1)], "regex")
