"""What readers of servers that always stream have in common: one answer, an event for each chunk of it."""

from typing import Any

from inference.events import Event
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import broken, in_band
from inference.remote.upstreams.choices import Choices
from inference.untrusted_json import decode_json


class StreamedReader:
    """An AnswerReader for the answer `index`; a kind of server adds `read_chunk`.

    CHUNK  what an event of this server is, for messages
    """

    CHUNK: str

    def __init__(self, model: str, index: int) -> None:
        self.model, self.index = model, index
        self.choices = Choices(model, (index,))

    @property
    def is_complete(self) -> bool:
        return self.choices.are_finished

    def read(self, event: ServerSentEvent) -> list[Event]:
        try:
            chunk = decode_json(event.data)
            if chunk.get("error"):
                raise in_band(self.model, chunk["error"])
            return self.read_chunk(chunk)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise broken(self.model, f"an event is no {self.CHUNK}") from None

    def read_chunk(self, chunk: dict[str, Any]) -> list[Event]:
        """The events of a chunk without an error. KeyError, TypeError, AttributeError: it is no chunk."""
        raise NotImplementedError

    def read_document(self, body: bytes) -> list[Event]:
        raise broken(self.model, "it is not streamed")

    def finish(self) -> list[Event]:
        return self.choices.finish()

    def finish_at_deadline(self) -> list[Event]:
        return self.choices.finish_at_deadline()
