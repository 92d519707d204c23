"""Stop strings and patterns: where a text that grows token by token is to end.

Knows generated text only. What has stopped stays stopped there, whatever follows.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import regex

from api.neodim.prompt import first
from inference.errors import BadRequest

MAX_STOPS = 64
MAX_CHARS = 2000  # of each
# Seconds that a request's patterns may search, all together: at first, and more with each token, so that long
# answers can be searched and no request holds up the thread that delivers everyone's tokens.
ALLOWANCE_S = 0.25
EARNED_S = 0.0002

FIELD = "stop_strings"


class Hit(NamedTuple):
    """Where a text stops: at `start`, by `stop`, which is there as `match`."""

    start: int
    stop: str
    match: str


class Finder(Protocol):
    def find(self, text: str, known: int) -> Hit | None:
        """The earliest hit, of several there the longest; none ends within the first `known` characters."""
        ...


class Strings:
    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.longest = max(map(len, stops), default=0)

    def find(self, text: str, known: int) -> Hit | None:
        found = first(text, self.stops, max(0, known + 1 - self.longest))
        return Hit(*found, found[1]) if found else None


class Patterns:
    """Regular expressions in the dialect of the `regex` package. Searching raises BadRequest when the time is
    used up."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.patterns = [compiled(stop) for stop in stops]
        self.left_s = ALLOWANCE_S

    def find(self, text: str, known: int) -> Hit | None:
        self.left_s += EARNED_S
        hits = (self._search(pattern, text) for pattern in self.patterns)
        return min(filter(None, hits), key=lambda hit: (hit.start, -len(hit.match)), default=None)

    def _search(self, pattern: regex.Pattern, text: str) -> Hit | None:
        begun = time.thread_time()
        try:
            if self.left_s <= 0:
                raise TimeoutError
            match = pattern.search(text, timeout=self.left_s)
        except TimeoutError:
            raise BadRequest(FIELD, "hold a pattern that takes too long to find", pattern.pattern) from None
        self.left_s -= time.thread_time() - begun
        return Hit(match.start(), pattern.pattern, match.group()) if match else None


def compiled(stop: str) -> regex.Pattern:
    try:
        return regex.compile(stop)
    except (regex.error, RecursionError) as error:
        raise BadRequest(FIELD, f"hold a pattern that cannot be used ({error})", stop) from None


KINDS: dict[str, Callable[[Sequence[str]], Finder]] = {"string": Strings, "regex": Patterns}


def finder(stops: Sequence[str], kind: str) -> Finder:
    """Raises BadRequest."""
    if len(stops) > MAX_STOPS:
        raise BadRequest(FIELD, f"may hold at most {MAX_STOPS}", len(stops))
    for stop in stops:
        if len(stop) > MAX_CHARS:
            raise BadRequest(FIELD, f"may have at most {MAX_CHARS} characters each", stop)
    return KINDS[kind](stops)


class Watch:
    """One growing text.

    required  how many tokens in a row must leave a hit before it counts, for patterns that look ahead
    hit       where the text stops; None as long as it goes on
    tokens    how many it took; none is to be fed once it has stopped
    """

    def __init__(self, finder: Finder, required: int) -> None:
        self.finder = finder
        self.required = required
        self.hit: Hit | None = None
        self.tokens = 0
        self._text = ""
        self._known = 0
        self._streak = 0

    def feed(self, text: str) -> bool:
        """Take a token's text; returns whether the text stops with it."""
        self.tokens += 1
        self._text += text
        found = self.finder.find(self._text, self._known)
        if found is None:
            self._known, self._streak = len(self._text), 0
            return False
        self._streak += 1
        if self._streak >= self.required:
            self.hit = found
        return self.hit is not None
