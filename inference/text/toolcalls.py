"""Tool calls found in an answer as it comes; everything else passes as text, at once.

Knows where calls may begin; calls.py knows what they look like. A call is told whole, once it is complete:
until then it may turn out to be text, of which nothing is lost.
"""

import secrets
from collections.abc import Iterable, Iterator

from inference.text.calls import CLOSINGS, TAGS, Call, tagged, untagged
from inference.text.scan import MARK, NotACall, Rule
from inference.types import CallDelta, Tool

Piece = str | CallDelta


class ToolCalls:
    """The calls in the answer `index`, to one of `tools`.

    A tag may stand anywhere; a call without one only at an opening: where the answer begins, behind a call,
    or behind a special token.
    """

    def __init__(self, tools: Iterable[Tool], index: int = 0) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._heads = frozenset("{[").union(name[:1] for name in self._tools)
        self._index = index
        self._number = 0
        self._open = True
        self._held: list[str] = []
        self._rule: Rule[list[Call]] | None = None

    def feed(self, text: str) -> list[Piece]:
        """What has become certain: text, and calls."""
        if self._rule is None and not self._open and not ("<" in text or "[" in text):
            return [text] if text else []
        return [piece for char in text for piece in self._take(char) if piece]

    def mark(self) -> list[Piece]:
        """A special token stands here, of which no text is told, such as <|python_tag|>."""
        if self._rule is not None:
            try:
                self._rule.send(MARK)
            except NotACall:
                pass
            else:
                return []
        pieces = self.flush()
        self._open = True
        return pieces

    def flush(self) -> list[Piece]:
        """The text that was held back. White space behind the last call is not part of the answer."""
        gap = self._rule is None and self._number > 0
        text = self._release()
        return [text] if text and not gap else []

    def _take(self, char: str) -> Iterator[Piece]:
        if self._rule is None:
            yield from self._begin(char)
            return
        try:
            self._rule.send(char)
        except NotACall:
            yield self._release()
            yield from self._begin(char)
        except StopIteration as end:
            yield from self._tell(end.value)
        else:
            self._held.append(char)

    def _begin(self, char: str) -> Iterator[Piece]:
        """A character outside any call: the first of one, part of the gap in front of one, or text."""
        self._held.append(char)
        if char == "<" or (char == "[" and not self._open):
            self._rule = tagged(char, TAGS + CLOSINGS if self._open and self._number else TAGS, self._tools)
            next(self._rule)
        elif self._open and char in self._heads:
            self._rule = untagged(char, self._tools)
            next(self._rule)
        elif not (self._open and (char.isspace() or (char in ";," and self._number))):
            yield self._release()

    def _release(self) -> str:
        text = "".join(self._held)
        self._held.clear()
        self._rule = None
        self._open = False
        return text

    def _tell(self, calls: list[Call]) -> Iterator[Piece]:
        self._release()
        self._open = True
        for call in calls:
            id = f"call_{secrets.token_hex(12)}"
            yield CallDelta(self._index, self._number, id, call.name, call.arguments, done=True)
            self._number += 1
