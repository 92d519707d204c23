"""Where a text that grows token by token is stopped."""

import hashlib
import threading
import time

import psutil
import pytest
import regex

from api.neodim.stop_strings import (
    ALLOWANCE_PER_TOKEN_S,
    ALLOWANCE_S,
    MAX_ELEMENTS,
    MAX_STOP_CHARS,
    MAX_STOPS,
    StopMatch,
    StopTracker,
    make_finder,
    search_within,
)
from inference.errors import BadRequest


def find_stop(
    tokens: list[str], *stops: str, kind: str = "string", required: int = 1
) -> tuple[int, StopMatch] | None:
    """(number of tokens fed until the stop, the match), or None if nothing stops."""
    watch = StopTracker(make_finder(stops, kind), required)
    for token in tokens:
        if watch.feed(token):
            assert watch.stop_match is not None
            return watch.num_tokens, watch.stop_match
    return None


def test_the_earliest_match_stops_and_at_one_place_the_longest() -> None:
    assert find_stop(["one, but"], ",", ", but", "n") == (1, StopMatch(1, "n", "n"))
    assert find_stop(["one, but"], ",", ", but") == (1, StopMatch(3, ", but", ", but"))
    assert find_stop(["one", ",", " but"], ",", ", but") == (2, StopMatch(3, ",", ","))


def test_a_stop_string_may_span_several_tokens() -> None:
    assert find_stop(["a\n", "\n", "", ">b"], "\n\n>") == (4, StopMatch(1, "\n\n>", "\n\n>"))
    assert find_stop(["a\n", ">\n", ">b"], "\n\n>") is None


def test_nothing_stops_a_text_without_stop_strings() -> None:
    assert find_stop(["a", "b"]) is None


def test_a_lookahead_pattern_waits_for_what_follows() -> None:
    end = r"(?<!\b(?:Mr|Dr))[.!?](?=\s)"
    assert find_stop(["Hi Mr", ".", " X", ".", " Y"], end, kind="regex") == (5, StopMatch(8, end, "."))


def test_required_consecutive_hits_are_counted_from_0_after_a_miss() -> None:
    tokens = [" Brad", "bury", " Brad", " x"]
    assert find_stop(tokens, "Brad(?!bury)", kind="regex") == (1, StopMatch(1, "Brad(?!bury)", "Brad"))
    assert find_stop(tokens, "Brad(?!bury)", kind="regex", required=2) == (
        4,
        StopMatch(10, "Brad(?!bury)", "Brad"),
    )
    assert find_stop(tokens, "Brad(?!bury)", kind="regex", required=3) is None
    assert find_stop(["cat", " sat", " on"], "cat", required=2) == (2, StopMatch(0, "cat", "cat"))


def test_a_pattern_may_match_an_empty_string() -> None:
    assert find_stop(["Hi", "\n"], r"(?=\n)", kind="regex") == (2, StopMatch(2, r"(?=\n)", ""))


@pytest.mark.parametrize("pattern", ["[", "(?<x", r"\L<words>", "a{99999999999}", "(" * 900 + ")" * 900, "*"])
def test_a_pattern_that_cannot_be_parsed_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="stop_strings contain an invalid pattern"):
        make_finder([pattern], "regex")


@pytest.mark.parametrize("pattern", ["a)", "(?1)", r"\9", "(?P=x)", "(?V0)(?V1)a", "(?a)(?L)a"])
def test_a_pattern_that_only_the_compiler_refuses_is_refused_too(pattern: str) -> None:
    with pytest.raises(BadRequest, match="stop_strings contain an invalid pattern"):
        make_finder([pattern], "regex")


@pytest.mark.parametrize(
    "pattern", [r"(?:a{1,10000}){1,10000}b", "(?R)", "(?b)(?:foobarbazfoobarbaz){e<=30}$"]
)
def test_a_pattern_that_searches_too_long_is_aborted(pattern: str) -> None:
    started_at = time.thread_time()
    with pytest.raises(BadRequest, match="too slow to match"):
        find_stop(["a" * 5000], pattern, kind="regex")
    assert time.thread_time() - started_at < 4 * ALLOWANCE_S


def test_the_memory_of_a_search_that_failed_is_returned() -> None:
    """On a thread of its own, as in the server: such a thread keeps what it has freed."""

    def search() -> None:
        for _ in range(3):
            with pytest.raises(BadRequest, match="too slow to match"):
                find_stop(["Once upon a time"], "(?R)?.(?R)", kind="regex")

    bytes_before = psutil.Process().memory_info().rss
    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert psutil.Process().memory_info().rss < bytes_before + (16 << 20)


@pytest.mark.parametrize(
    "patterns",
    [
        ["(?:a{3000}){3000}"],
        ["(" * 90 + "a" + "){1,50}" * 90],
        ["(?=" + "a{4000}" + ")" + "b{4000}", "c{4000}"],
        [r"(?if)[\x00-\U0010ffff]{9000}"],
    ],
    ids=["product", "nested", "together", "folded"],
)
def test_patterns_that_are_too_large_are_refused_before_they_are_compiled(patterns: list[str]) -> None:
    started_at = time.thread_time()
    with pytest.raises(
        BadRequest, match=rf"^stop_strings may have at most {MAX_ELEMENTS} elements .*, got \d+"
    ):
        make_finder(patterns, "regex")
    assert time.thread_time() - started_at < 0.5


def test_the_time_of_other_threads_does_not_count_for_a_pattern() -> None:
    """The regex package counts it."""
    pattern, text = regex.compile("a[^c]*d"), "a" * 8000
    started_at = time.thread_time()
    assert pattern.search(text) is None
    seconds_alone = time.thread_time() - started_at
    block, is_over = b"x" * (1 << 20), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            hashlib.sha256(block).digest()

    threads = [threading.Thread(target=compute) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert search_within(4 * seconds_alone, pattern, text) is None  # they share the caches, too
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_the_time_limit_for_patterns_is_per_request() -> None:
    with pytest.raises(BadRequest, match="too slow to match"):
        find_stop(["a" * 1500] + ["a"] * 2000, r"(a+a+)+b", "a*a*a*b", kind="regex")


def test_many_simple_patterns_have_time_enough_in_a_long_text() -> None:
    stop_finder = make_finder([rf"\d{{{number}}}\.\s" for number in range(1, MAX_STOPS)], "regex")
    text = "The quick brown fox. " * 200
    for end in range(0, len(text), 4):
        assert stop_finder.find(text[:end], 0) is None


def test_time_that_is_not_used_is_not_saved_up() -> None:
    stop_finder = make_finder(["x"], "regex")
    for _ in range(10_000):
        stop_finder.find("a", 0)
    assert stop_finder.budget_s <= ALLOWANCE_S + 2 * ALLOWANCE_PER_TOKEN_S


def test_the_number_and_length_of_stops_are_limited() -> None:
    with pytest.raises(BadRequest, match=f"at most {MAX_STOPS}"):
        make_finder(["a"] * (MAX_STOPS + 1), "string")
    with pytest.raises(BadRequest, match=f"at most {MAX_STOP_CHARS} characters"):
        make_finder(["a" * (MAX_STOP_CHARS + 1)], "regex")
