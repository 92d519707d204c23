"""Collects the output of tool parsers: an answer's call deltas and the text between them, in order.

Knows the parts of a call; knows no format.
"""

import secrets
from collections.abc import Iterable

from inference.events import CallDelta
from inference.types import Tool

TextOrDelta = str | CallDelta


class ToolCallEmitter:
    """The tool calls of the answer `index`, to one of `tools`.

    parallel      allow several calls; False: only the first is emitted
    is_open       a call has started and has not ended
    call_number   the number of the open call, or of the next one
    is_complete   the only allowed call is complete
    has_progress  part of a call has been emitted; the caller resets it
    """

    def __init__(self, tools: Iterable[Tool], index: int, *, parallel: bool) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.is_open = False
        self.call_number = 0
        self.is_complete = False
        self.has_progress = False
        self._index = index
        self._parallel = parallel
        self._id = self._name = ""
        self._arguments: list[str] = []
        self._items: list[TextOrDelta] = []

    def emit_text(self, text: str) -> None:
        if text:
            self._items.append(text)

    def emit_call(self, name: str, arguments: str) -> None:
        """Emit a whole call; `arguments` is the text of a JSON object."""
        if not self.is_complete:
            self.begin_call(name)
            self.append_arguments(arguments)
            self.end_call()

    def begin_call(self, name: str) -> None:
        self.is_open = True
        self._name = name
        self._id = f"call_{secrets.token_hex(12)}"

    def append_arguments(self, arguments: str) -> None:
        self.has_progress = True
        self._arguments.append(arguments)

    def end_call(self) -> None:
        """End the open call as complete."""
        self.has_progress = True
        self._emit_delta(is_last=True)
        self.is_complete = not self._parallel
        self._next_call()

    def abandon_call(self) -> None:
        """End the open call as incomplete."""
        self._emit_delta(is_last=False)
        self._next_call()

    def drain(self) -> list[TextOrDelta]:
        """The texts and call deltas since the last drain, in order."""
        if self.is_open and self._arguments:
            self._emit_delta(is_last=False)
        items, self._items = self._items, []
        return items

    def _emit_delta(self, *, is_last: bool) -> None:
        arguments = "".join(self._arguments)
        self._arguments.clear()
        if arguments or is_last:
            self._items.append(
                CallDelta(self._index, self.call_number, self._id, self._name, arguments, done=is_last)
            )

    def _next_call(self) -> None:
        self.is_open = False
        self.call_number += 1
