"""Parses a WHATWG event stream (server-sent events) from the bytes of a response, however they are divided.

Knows lines and fields only. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


class TooLargeEvent(Exception):
    """An event has more than MAX_EVENT_BYTES bytes, or what is skipped before it has."""


class ServerSentEvent(NamedTuple):
    """One event. name: of the field `event`; empty: none."""

    name: bytes
    data: bytes


class EventStreamParser:
    """Parses server-sent events from chunks of bytes.

    Comments, ids, retry times and events without data are skipped; an unfinished event at the end is dropped.
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # the beginning of a line
        self._is_at_start = True
        self._name = b""
        self._data: list[bytes] = []
        self._num_bytes = 0  # since the last event

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that the chunk completes. Raises TooLargeEvent."""
        self._rest += chunk
        events = self._read_lines() if b"\n" in chunk or b"\r" in chunk else []
        if len(self._rest) + self._num_bytes > MAX_EVENT_BYTES:
            raise TooLargeEvent
        return events

    def _read_lines(self) -> list[ServerSentEvent]:
        """The events that the received lines complete."""
        text = bytes(self._rest)
        if self._is_at_start:
            text, self._is_at_start = text.removeprefix(BOM), False
        lines = text.splitlines(keepends=True)
        # A line may continue in the next chunk, and a \r at the end may be the first half of \r\n.
        self._rest = bytearray() if not lines or lines[-1].endswith(b"\n") else bytearray(lines.pop())
        return [event for line in lines if (event := self._read_line(line.rstrip(b"\r\n")))]

    def _read_line(self, line: bytes) -> ServerSentEvent | None:
        """Record a field; an empty line completes an event."""
        self._num_bytes += len(line) + 1  # a line without a value takes memory, and each takes time
        if not line:
            return self._complete_event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
        return None

    def _complete_event(self) -> ServerSentEvent | None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = ServerSentEvent(self._name, data) if data else None
        self._name, self._data = b"", []
        if event:
            self._num_bytes = 0
        return event
