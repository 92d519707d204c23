"""Stored chat completions: those that were created with store: true. Entry points: record_chat, ROUTES.

Clients of Llama Stack read `input_messages`, those of OpenAI list the messages by a route of their own.
"""

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from flask import Response, request
from msgspec import Struct, to_builtins

from api.body import json_body
from api.body.json_body import encode
from api.client_detection import is_llama_stack
from api.openai.errors import InvalidParameter
from api.openai.protocol.chat import ChatCompletionRequest, ChatCompletionResponse
from api.openai.protocol.errors import ErrorResponse
from api.openai.requests.parse import read_request
from api.openai.stored import (
    PAGE_PARAMETERS,
    StoredRoute,
    check_metadata,
    deleted_response,
    list_response,
    object_response,
    page_query,
    page_response,
    read_metadata_filter,
    run_query,
    update_metadata,
)
from api.openapi.operation import Operation
from api.response import Writer
from api.store import listing, tables
from api.store.access import current_store, request_owner
from api.store.listing import Filter
from api.store.recorded_stream import RecordedStream
from api.store.tables import StoredItem, StoredObject
from inference.backend import Stream
from inference.events import Event

FILTERS = {
    "model": "list the chat completions of this model",
    "metadata[key]": "list the chat completions with this value of the key in their metadata",
}


class UpdateChat(Struct):
    """A chat completion's new metadata.

    metadata  replaces the chat completion's
    """

    metadata: dict[str, Any] | None = None


def check_stored_chat(body: ChatCompletionRequest) -> None:
    """Check the metadata of a chat completion to be stored. Raises InvalidParameter."""
    if not isinstance(body.metadata, dict | None):
        raise InvalidParameter("metadata must be an object", "metadata")
    check_metadata(body.metadata)


def record_chat(
    stream: Stream, body: ChatCompletionRequest, num_answers: int, make_writer: Callable[[], Writer]
) -> Stream:
    """The stream, which stores the chat completion at its end, unless the server stores nothing.

    make_writer  makes a writer of this chat completion that has seen no event
    """
    store = current_store()
    if store is None:
        return stream
    owner, messages = request_owner(), json_body.read()["messages"]
    further_fields = {"metadata": body.metadata or {}, "input_messages": messages}

    def save(events: list[Event]) -> Future[None]:
        return store.submit(_write, owner, make_writer(), events, further_fields)

    return RecordedStream(stream, num_answers, save, on_failure=lambda: None)


def _write(
    connection: sqlite3.Connection,
    owner: str,
    writer: Writer,
    events: list[Event],
    further_fields: dict[str, Any],
) -> None:
    for event in events:
        writer.chunk(event)
    value = to_builtins(writer.full_response()) | further_fields
    chat = StoredObject(
        owner=owner, kind="chat", id=value["id"], value=encode(value).decode(), model=value["model"]
    )
    tables.insert(connection, chat, {})


def list_chats() -> Response:
    """Oldest first, as in OpenAI's API; newest first for the clients of Llama Stack, as in its API."""
    query = page_query("desc" if is_llama_stack(request.headers) else "asc")
    filter = Filter(request.args.get("model"), read_metadata_filter())
    return list_response(run_query(listing.list_objects, "chat", query, filter))


def get_chat(id: str) -> Response:
    return object_response("chat", id)


def update_chat(id: str) -> Response:
    """Replace the metadata."""
    return update_metadata("chat", id, read_request(UpdateChat).metadata)


def delete_chat(id: str) -> Response:
    run_query(tables.delete, "chat", id)
    return deleted_response("chat.completion.deleted", id)


def list_messages(id: str) -> Response:
    messages = json.loads(run_query(tables.find, "chat", id))["input_messages"]
    rows = [_stored_message(f"{id}-{i}", message) for i, message in enumerate(messages)]
    return page_response(rows, page_query("asc"))


def _stored_message(id: str, message: dict[str, Any]) -> StoredItem:
    """A message with its content as text, and as parts if it was sent in parts."""
    content = message.get("content")
    content_parts = content if isinstance(content, list) else None
    if content_parts is not None:
        texts = [each.get("text") if isinstance(each, dict) else each for each in content_parts]
        content = "".join(text for text in texts if isinstance(text, str))
    value = {"id": id, "name": None, **message, "content": content, "content_parts": content_parts}
    return StoredItem(id, encode(value).decode())


def _operation(summary: str, **fields: Any) -> Operation:
    return Operation(summary, error=ErrorResponse, **fields)


LIST = _operation("List the stored chat completions", query={**PAGE_PARAMETERS, **FILTERS})
GET = _operation("Show a stored chat completion", response=ChatCompletionResponse)
UPDATE = _operation(
    "Replace the metadata of a stored chat completion", body=UpdateChat, response=ChatCompletionResponse
)
DELETE = _operation("Delete a stored chat completion")
LIST_MESSAGES = _operation("List the messages of a stored chat completion", query=PAGE_PARAMETERS)
ROUTES = (
    StoredRoute("GET", "/chat/completions", list_chats, LIST),
    StoredRoute("GET", "/chat/completions/<id>", get_chat, GET),
    StoredRoute("POST", "/chat/completions/<id>", update_chat, UPDATE),
    StoredRoute("DELETE", "/chat/completions/<id>", delete_chat, DELETE),
    StoredRoute("GET", "/chat/completions/<id>/messages", list_messages, LIST_MESSAGES),
)
