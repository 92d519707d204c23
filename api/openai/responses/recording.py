"""Stores a response with its items, and adds the items to its conversation.

The events of an answer are written a second time, on the store's thread: the result is what is stored.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from api.body.json_body import encode
from api.openai.responses.context import ResponseContext
from api.openai.responses.protocol import ResponsesResponse
from api.openai.responses.stored_items import stored_output
from api.openai.responses.writer import ResponseWriter
from api.store.store import Store
from api.store.tables import Items, StoredItem, StoredObject, UnknownId, append, finish, insert
from inference.events import Event


@dataclass(frozen=True, slots=True)
class Recorder:
    """Stores one response.

    is_stored    the response itself is stored; else only its conversation gets the items
    new_items    the input items of the request
    make_writer  makes a writer of this response that has seen no event
    """

    store: Store
    owner: str
    context: ResponseContext
    is_stored: bool
    new_items: list[StoredItem]
    make_writer: Callable[[], ResponseWriter]

    def save(self, events: list[Event]) -> Future[None]:
        """Store the response that has these events. Returns at once."""
        return self.store.submit(self._write, events)

    def begin(self, response: ResponsesResponse) -> None:
        """Store a response that a background run will finish. Raises StoreFailed."""
        self.store.run(insert, self._to_object(response, is_running=True), {"input": self.new_items})

    def finish(self, response: ResponsesResponse) -> None:
        """Store the end of a response that was begun, unless it was deleted. Raises StoreFailed."""
        self.store.run(self._finish, response)

    def _write(self, connection: sqlite3.Connection, events: list[Event]) -> None:
        writer = self.make_writer()
        for event in events:
            writer.chunk(event)
        response = writer.full_response()
        if self.is_stored:
            items: Items = {"input": self.new_items, "output": stored_output(response.output)}
            insert(connection, self._to_object(response), items)
        self._extend_conversation(connection, response)

    def _finish(self, connection: sqlite3.Connection, response: ResponsesResponse) -> None:
        if finish(connection, self._to_object(response), stored_output(response.output)):
            self._extend_conversation(connection, response)

    def _extend_conversation(self, connection: sqlite3.Connection, response: ResponsesResponse) -> None:
        """A conversation that was deleted meanwhile stays deleted, and a failed response adds nothing."""
        if self.context.conversation_id is None or response.status not in ("completed", "incomplete"):
            return
        items = self.new_items + stored_output(response.output)
        with contextlib.suppress(UnknownId):
            append(connection, self.owner, self.context.conversation_id, items)

    def _to_object(self, response: ResponsesResponse, is_running: bool = False) -> StoredObject:
        return StoredObject(
            owner=self.owner,
            kind="response",
            id=response.id,
            value=encode(response).decode(),
            model=response.model,
            previous=response.previous_response_id,
            conversation=self.context.conversation_id,
            conversation_end=self.context.conversation_end,
            is_running=is_running,
        )
