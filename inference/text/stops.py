"""Stop strings in a text that comes in pieces: found across their borders, nothing else held back.

The automaton of Aho and Corasick, "Efficient string matching" (1975): linear in the text, however many
strings there are. Knows characters only.
"""

from collections import deque
from collections.abc import Iterable


class Stops:
    """What may end a text. The string completed first ends it; of several completed at once, the longest.

    Built in time linear in the strings' lengths, and shared by the answers of a request.

    dropped  strings that are no part of the text they end
    kept     strings that are
    """

    def __init__(self, dropped: Iterable[str], kept: Iterable[str] = ()) -> None:
        self.kept = frozenset(kept)
        self.edges: list[dict[str, int]] = [{}]
        self.depths = [0]  # characters that belong to a string still to be dropped
        self.hits = [""]
        self.fails = [0]
        for string in self.kept:
            self._add(string, dropped=False)
        for string in dropped:
            self._add(string, dropped=string not in self.kept)
        self._link()
        self.heads = frozenset(self.edges[0])

    def watch(self) -> "Watch":
        return Watch(self)

    def follow(self, state: int, char: str) -> int:
        """The state that holds the longest head of a stop string which the text now ends with."""
        while state and char not in self.edges[state]:
            state = self.fails[state]
        return self.edges[state].get(char, 0)

    def _add(self, string: str, *, dropped: bool) -> None:
        state = 0
        for depth, char in enumerate(string, 1):
            if char not in self.edges[state]:
                self.edges[state][char] = len(self.edges)
                self.edges.append({})
                self.depths.append(0)
                self.hits.append("")
            state = self.edges[state][char]
            self.depths[state] = depth if dropped else self.depths[state]
        self.hits[state] = string

    def _link(self) -> None:
        """Set where each state falls back to: the longest proper suffix of its string that is a state too."""
        self.fails = [0] * len(self.edges)
        queue = deque(self.edges[0].values())
        while queue:
            state = queue.popleft()
            for char, child in self.edges[state].items():
                fallback = self.fails[child] = self.follow(self.fails[state], char)
                self.hits[child] = self.hits[child] or self.hits[fallback]
                self.depths[child] = self.depths[child] or self.depths[fallback]
                queue.append(child)


class Watch:
    """One text under watch. Only a possible head of a stop string that is dropped is held back."""

    def __init__(self, stops: Stops) -> None:
        self._stops = stops
        self._state = 0
        self._held = ""

    def feed(self, text: str, name: str = "") -> tuple[str, str]:
        """(text that is certain, the stop string that ended it or ""). Not to be fed after a hit.

        The `name` of a special token ends nothing.
        """
        if not self._state and self._stops.heads.isdisjoint(text):
            return text, ""
        seen = self._held + text
        for position, char in enumerate(text, len(self._held) + 1):
            self._state = self._stops.follow(self._state, char)
            if hit := self._stops.hits[self._state]:
                self._held = ""
                return seen[: position if hit in self._stops.kept else position - len(hit)], hit
        certain = len(seen) - self._stops.depths[self._state]
        self._held = seen[certain:]
        return seen[:certain], ""

    def flush(self) -> str:
        """What was held back, once the text has ended without a stop string."""
        held, self._held, self._state = self._held, "", 0
        return held
