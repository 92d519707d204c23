"""Finds stop strings in streamed text, also across the boundaries of chunks. Knows characters only.

StopStrings    match anywhere; text is held back only while it may be the start of a stop string. Uses the
               automaton of Aho and Corasick, "Efficient string matching" (1975): linear in the text for any
               number of strings.
TokenEndStops  match only at the end of a token, like TGI's stop sequences; no text is held back.
"""

from collections import deque
from collections.abc import Iterable


class StopStrings:
    """The stop strings of a request. The first match ends the text; if several end there, the longest counts.

    Built in time linear in the lengths of the strings; shared by the request's answers.

    excluded  strings that are removed from the end of the text
    included  strings that stay in the text
    """

    def __init__(self, excluded: Iterable[str], included: Iterable[str] = ()) -> None:
        self.included = frozenset(included)
        self.edges: list[dict[str, int]] = [{}]
        self.depths = [0]  # by state: characters to hold back, as they may start an excluded string
        self.matches = [""]
        self.fails = [0]
        for string in self.included:
            self._add(string, is_excluded=False)
        for string in excluded:
            self._add(string, is_excluded=string not in self.included)
        self._link()
        self.first_chars = frozenset(self.edges[0])

    def new_matcher(self) -> "StopMatcher":
        return StopMatcher(self)

    def next_state(self, state: int, char: str) -> int:
        """The state of the longest prefix of a stop string that the text, with `char` added, ends with."""
        while state and char not in self.edges[state]:
            state = self.fails[state]
        return self.edges[state].get(char, 0)

    def _add(self, string: str, *, is_excluded: bool) -> None:
        state = 0
        for depth, char in enumerate(string, 1):
            if char not in self.edges[state]:
                self.edges[state][char] = len(self.edges)
                self.edges.append({})
                self.depths.append(0)
                self.matches.append("")
            state = self.edges[state][char]
            self.depths[state] = depth if is_excluded else self.depths[state]
        self.matches[state] = string

    def _link(self) -> None:
        """Set the fallback of each state: the longest proper suffix of its string that is a state too."""
        self.fails = [0] * len(self.edges)
        queue = deque(self.edges[0].values())
        while queue:
            state = queue.popleft()
            for char, child in self.edges[state].items():
                fallback = self.fails[child] = self.next_state(self.fails[state], char)
                self.matches[child] = self.matches[child] or self.matches[fallback]
                self.depths[child] = self.depths[child] or self.depths[fallback]
                queue.append(child)


class StopMatcher:
    """Matches one text. Holds back text only while it may be the start of an excluded string."""

    def __init__(self, stops: StopStrings) -> None:
        self._stops = stops
        self._state = 0
        self._held_text = ""

    def feed(self, text: str, special_name: str = "") -> tuple[str, str]:
        """(text to emit, the stop string that ended the text or ""). Must not be called after a match.

        The name of a special token is ignored: a special token matches no stop string.
        """
        if not self._state and self._stops.first_chars.isdisjoint(text):
            return text, ""
        pending = self._held_text + text
        for position, char in enumerate(text, len(self._held_text) + 1):
            self._state = self._stops.next_state(self._state, char)
            if stop_string := self._stops.matches[self._state]:
                self._held_text = ""
                return pending[
                    : position if stop_string in self._stops.included else position - len(stop_string)
                ], stop_string
        num_certain = len(pending) - self._stops.depths[self._state]
        self._held_text = pending[num_certain:]
        return pending[:num_certain], ""

    def flush(self) -> str:
        """The text that is still held back. For the end of a text without a stop string."""
        held_text, self._held_text, self._state = self._held_text, "", 0
        return held_text


class TokenEndStops:
    """Stop strings that match only where a token ends, the longest first; shared by a request's answers.

    A special token matches by its name, although the name is not part of the text.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = sorted(strings, key=len, reverse=True)

    def new_matcher(self) -> "TokenEndMatcher":
        return TokenEndMatcher(self)


class TokenEndMatcher:
    """Matches one text. No text is held back, and the stop string stays in the text."""

    def __init__(self, stops: TokenEndStops) -> None:
        self._stops = stops
        self._tail = ""

    def feed(self, text: str, special_name: str = "") -> tuple[str, str]:
        """(text, the stop string that the text ends with or ""). Call it once per token."""
        strings = self._stops.strings
        if not strings:
            return text, ""
        self._tail = (self._tail + (special_name or text))[-len(strings[0]) :]
        return text, next((string for string in strings if self._tail.endswith(string)), "")

    def flush(self) -> str:
        return ""
