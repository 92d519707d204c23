"""The queue of gradio 3, which streams over a WebSocket: what is said in it, and how its messages are read.

The server asks for the session and then for the arguments. Each of its later messages has the whole text of
the answer so far. gradio 3.50.2: queueing.py, Queue.process_events.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from inference.errors import Overloaded
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import DEFAULT_RETRY_AFTER_S, UpstreamFailure, broken, in_band
from inference.remote.upstreams.gradio.reader import GradioReader
from inference.untrusted_json import decode_json

QUEUE_PATH = "/queue/join"
GENERATING, COMPLETED, FULL = "process_generating", "process_completed", "queue_full"
SEND_SESSION, SEND_DATA = "send_hash", "send_data"


class QueueCall:
    """One call of a function by its number in the page.

    arguments  with a null for each state
    """

    def __init__(self, fn_index: int, arguments: Sequence[Any]) -> None:
        session = {"fn_index": fn_index, "session_hash": uuid4().hex}
        data = {"data": arguments, "event_data": None, **session}
        self._replies = {SEND_SESSION: session, SEND_DATA: data}

    def reply(self, message: bytes) -> bytes | None:
        """What the server is sent after this message of it; None: nothing."""
        name = read_name(message)
        return msgspec.json.encode(self._replies[name]) if name in self._replies else None


class GradioQueueReader(GradioReader):
    """Reads the messages of the queue."""

    def read(self, event: ServerSentEvent) -> list[Any]:
        name = read_name(event.data)
        if name == FULL:
            error = Overloaded(DEFAULT_RETRY_AFTER_S)
            raise UpstreamFailure(error, "overloaded", is_retried=True)
        if name not in (GENERATING, COMPLETED):
            return []
        message = self._decode(event.data)
        if not message.get("success"):
            raise in_band(self._model, "its function ended with an error")
        output = message.get("output")
        if not isinstance(output, dict):
            raise broken(self._model, "a message of its queue has no output")
        return self._read(output.get("data"), is_last=name == COMPLETED)


def read_name(message: bytes) -> str:
    """The name of a message; empty for what is none."""
    try:
        document = decode_json(message)
    except ValueError:
        return ""
    return str(document.get("msg") or "") if isinstance(document, dict) else ""
