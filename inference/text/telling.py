"""Calls on their way out: what of an answer's calls is certain, in order, with the text between them.

Knows the events that come of a call, not how a model writes one.
"""

import secrets
from collections.abc import Iterable

from inference.types import CallDelta, Tool

Piece = str | CallDelta


class Telling:
    """What is told of the answer `index` with these tools.

    parallel  an answer may hold several calls; False: no more than one is told
    open      a call has been begun and not ended
    number    of the next call, or of the one that is open
    over      the only call there may be is complete
    heard     something has been told of a call; set back by whoever asks
    """

    def __init__(self, tools: Iterable[Tool], index: int, *, parallel: bool) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.open = False
        self.number = 0
        self.over = False
        self.heard = False
        self._index = index
        self._parallel = parallel
        self._id = self._name = ""
        self._news: list[str] = []
        self._pieces: list[Piece] = []

    def text(self, text: str) -> None:
        if text:
            self._pieces.append(text)

    def whole(self, name: str, arguments: str) -> None:
        """A call that becomes certain at once; `arguments` is a JSON object."""
        if not self.over:
            self.begin(name)
            self.more(arguments)
            self.end()

    def begin(self, name: str) -> None:
        self.open = True
        self._name = name
        self._id = f"call_{secrets.token_hex(12)}"

    def more(self, arguments: str) -> None:
        self.heard = True
        self._news.append(arguments)

    def end(self) -> None:
        """The call is complete."""
        self.heard = True
        self._tell(done=True)
        self.over = not self._parallel
        self._close()

    def abandon(self) -> None:
        """The call breaks off here."""
        self._tell(done=False)
        self._close()

    def drain(self) -> list[Piece]:
        """What has become certain since the last time."""
        if self.open and self._news:
            self._tell(done=False)
        pieces, self._pieces = self._pieces, []
        return pieces

    def _tell(self, *, done: bool) -> None:
        arguments = "".join(self._news)
        self._news.clear()
        if arguments or done:
            self._pieces.append(
                CallDelta(self._index, self.number, self._id, self._name, arguments, done=done)
            )

    def _close(self) -> None:
        self.open = False
        self.number += 1
