"""Divides the bytes of a link's response into messages, however they arrive. Does not know what they say."""

from inference.link_messages import LENGTH_BYTES
from inference.remote.event_stream import ServerSentEvent, TooLargeEvent

MAX_MESSAGE_BYTES = 256 << 20  # a long prompt with all its logprobs is one message


class FrameParser:
    """Yields events without a name, as an EventStreamParser. An unfinished message is dropped at the end."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The messages that the chunk completes. Raises TooLargeEvent."""
        self._rest += chunk
        events: list[ServerSentEvent] = []
        end = 0
        while len(self._rest) - end >= LENGTH_BYTES:
            begin = end + LENGTH_BYTES
            length = int.from_bytes(self._rest[end:begin])
            if length > MAX_MESSAGE_BYTES:
                raise TooLargeEvent
            if len(self._rest) < begin + length:
                break
            end = begin + length
            events.append(ServerSentEvent(b"", bytes(self._rest[begin:end])))
        del self._rest[:end]
        return events
