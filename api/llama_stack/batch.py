"""The reply to a batch: one writer for each item, and all their replies in one body."""

from collections.abc import Sequence
from typing import Any

from api.llama_stack.errors import broken, failed
from api.llama_stack.generation import Generation
from api.llama_stack.replies import ChatWriter, CompletionWriter
from inference.types import Event


class BatchWriter:
    """Batches are never streamed. Clients before 0.1 read the messages alone, under another name."""

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, generation: Generation, writers: Sequence[CompletionWriter | ChatWriter]) -> None:
        self.generation = generation
        self.writers = writers

    def chunk(self, event: Event) -> list[Any]:
        return self.writers[event.index].chunk(event)

    def whole(self) -> dict[str, Any]:
        body: dict[str, Any] = {"batch": [writer.whole() for writer in self.writers]}
        if not self.generation.typed:
            body["completion_message_batch"] = [writer.message() for writer in self.writers]
        return body
