"""Finds stop strings and patterns in a text that grows token by token.

Knows only the generated text. Later tokens do not change where a text has stopped.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import regex

from api.neodim.pattern_size import count_elements
from api.neodim.prompt import first_occurrence
from inference.errors import BadRequest, short
from inference.process.memory.malloc import trim_heap
from inference.validation import MAX_STOPS

MAX_STOP_CHARS = 2000  # of each
# All patterns of a request together. Parsing takes 3 µs a character, during which streams are slower.
MAX_PATTERN_CHARS = 10_000
# All patterns of a request together: 2.5 MB, and 5 ms in which the compiler lets no other thread run.
MAX_ELEMENTS = 10_000
# Seconds of search for all patterns of a request together: an allowance, and an addition for each token. What
# is not used is not saved. A simple pattern takes 2 µs, and up to 8 ns for each character of the text.
ALLOWANCE_S = 0.05
ALLOWANCE_PER_TOKEN_S = 0.0002
ALLOWANCE_PER_PATTERN_S = 20e-6
ALLOWANCE_PER_CHAR_S = 40e-9  # of each pattern

FIELD = "stop_strings"


class StopMatch(NamedTuple):
    """A stop string in a text.

    start  index of its first character
    stop   the stop string or pattern
    match  the text that it matches
    """

    start: int
    stop: str
    match: str


class StopFinder(Protocol):
    def find(self, text: str, known: int) -> StopMatch | None:
        """The earliest match, the longest at equal starts. No match ends in the first `known` characters."""
        ...


class StringFinder:
    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.longest = max(map(len, stops), default=0)

    def find(self, text: str, known: int) -> StopMatch | None:
        if not self.stops:
            return None
        match = first_occurrence(text, self.stops, max(0, known + 1 - self.longest))
        return StopMatch(*match, match[1]) if match else None


class PatternFinder:
    """Regular expressions of the `regex` package. `find` raises BadRequest when its time is used up."""

    def __init__(self, stops: Sequence[str]) -> None:
        check_elements(stops)
        self.patterns = [compile_pattern(stop) for stop in stops]
        regex.purge()  # with cache_pattern=False too, the package remembers each pattern's text
        self.budget_s = ALLOWANCE_S

    def find(self, text: str, known: int) -> StopMatch | None:
        per_pattern_s = ALLOWANCE_PER_PATTERN_S + ALLOWANCE_PER_CHAR_S * len(text)
        self.budget_s = min(self.budget_s, ALLOWANCE_S) + ALLOWANCE_PER_TOKEN_S
        self.budget_s += len(self.patterns) * per_pattern_s
        matches = (self._search(pattern, text) for pattern in self.patterns)
        return min(filter(None, matches), key=lambda each: (each.start, -len(each.match)), default=None)

    def _search(self, pattern: regex.Pattern, text: str) -> StopMatch | None:
        started_at = time.thread_time()
        try:
            match = search_within(self.budget_s, pattern, text)
        except (TimeoutError, MemoryError) as error:
            trim_heap()  # a recursive pattern has used up to 60 MB, which this thread would keep
            reason = "is too slow" if isinstance(error, TimeoutError) else "needs too much memory"
            raise BadRequest(FIELD, f"contain a pattern that {reason} to match", pattern.pattern) from None
        self.budget_s -= time.thread_time() - started_at
        return StopMatch(match.start(), pattern.pattern, match.group()) if match else None


def check_elements(stops: Sequence[str]) -> None:
    """Raise BadRequest for an invalid pattern, and for patterns that are too large together."""
    num_chars = sum(map(len, stops))
    if num_chars > MAX_PATTERN_CHARS:
        raise BadRequest(FIELD, f"may have at most {MAX_PATTERN_CHARS} characters in all patterns", num_chars)
    num_elements = 0
    for stop in stops:
        with invalid_pattern_refused(stop):
            num_elements += count_elements(stop)
        if num_elements > MAX_ELEMENTS:
            rule = f"may have at most {MAX_ELEMENTS} elements in all patterns, repetitions written out"
            raise BadRequest(FIELD, f"{rule}: with {short(stop)} they have more", num_elements)


def compile_pattern(stop: str) -> regex.Pattern:
    """Raises BadRequest for a fault that the parser leaves to the compiler: an unknown group, a bracket."""
    with invalid_pattern_refused(stop):
        return regex.compile(stop, cache_pattern=False)


@contextmanager
def invalid_pattern_refused(stop: str) -> Iterator[None]:
    """Raises BadRequest in place of the package's errors."""
    try:
        yield
    except (regex.error, ValueError, RecursionError) as error:
        raise BadRequest(FIELD, f"contain an invalid pattern ({error})", stop) from None


def search_within(seconds: float, pattern: regex.Pattern, text: str) -> regex.Match | None:
    """Search for at most so many seconds of this thread. Raises TimeoutError.

    The package's own timeout counts the time of all threads of the process: it is repeated until this thread
    has had its time.
    """
    end, timeout = time.thread_time() + seconds, seconds
    while time.thread_time() < end:
        try:
            return pattern.search(text, timeout=timeout)
        except TimeoutError:
            timeout *= 2
    raise TimeoutError


FINDERS: dict[str, Callable[[Sequence[str]], StopFinder]] = {"string": StringFinder, "regex": PatternFinder}


def make_finder(stops: Sequence[str], kind: str) -> StopFinder:
    """`kind` is "string" or "regex". Raises BadRequest for invalid, too many or too long stops."""
    if len(stops) > MAX_STOPS:
        raise BadRequest(FIELD, f"may hold at most {MAX_STOPS} strings", len(stops))
    for stop in stops:
        if len(stop) > MAX_STOP_CHARS:
            raise BadRequest(FIELD, f"may have at most {MAX_STOP_CHARS} characters each", stop)
    return FINDERS[kind](stops)


class StopTracker:
    """The search in one growing text.

    required    consecutive tokens after which a match must be found before it counts, for lookahead patterns
    stop_match  where the text stops; None while it continues
    num_tokens  tokens fed; no token may be fed after a match
    """

    def __init__(self, finder: StopFinder, required: int) -> None:
        self.finder = finder
        self.required = required
        self.stop_match: StopMatch | None = None
        self.num_tokens = 0
        self._text = ""
        self._known = 0
        self._streak = 0

    def feed(self, text: str) -> bool:
        """Append the text of one token; returns whether the text stops with it."""
        self.num_tokens += 1
        self._text += text
        stop_match = self.finder.find(self._text, self._known)
        if stop_match is None:
            self._known, self._streak = len(self._text), 0
            return False
        self._streak += 1
        if self._streak >= self.required:
            self.stop_match = stop_match
        return self.stop_match is not None
