"""OpenAI's Conversations API: a list of items that responses continue. Entry point: ROUTES."""

import json
import secrets
import sqlite3
import time
from typing import Any

from flask import Response

from api.body import json_body
from api.body.json_body import encode
from api.errors import json_response
from api.openai.conversations.protocol import (
    ADD_ITEMS,
    CREATE,
    DELETE,
    DELETE_ITEM,
    GET,
    GET_ITEM,
    LIST_ITEMS,
    UPDATE,
    ConversationObject,
    CreateConversation,
    CreateItems,
    UpdateConversation,
)
from api.openai.errors import InvalidParameter
from api.openai.requests.parse import read_request
from api.openai.responses.context import resolve_references
from api.openai.responses.input_items import to_chat_messages
from api.openai.responses.protocol import InputItem, ResponsesRequest
from api.openai.responses.stored_items import to_stored_items
from api.openai.stored import (
    StoredRoute,
    check_metadata,
    deleted_response,
    list_of,
    list_response,
    object_response,
    page_query,
    run_query,
    update_metadata,
)
from api.store import listing, tables
from api.store.tables import StoredItem, StoredObject

MAX_NEW_ITEMS = 20  # OpenAI's limit


def create() -> Response:
    body = read_request(CreateConversation)
    check_metadata(body.metadata)
    items = to_stored_items(_new_items(body.items or []))
    id = f"conv_{secrets.token_hex(16)}"
    conversation = ConversationObject(id, int(time.time()), body.metadata or {})
    value = encode(conversation)
    run_query(_insert, id, value.decode(), items)
    return json_response(200, value)


def get(id: str) -> Response:
    return object_response("conversation", id)


def update(id: str) -> Response:
    """Replace the metadata."""
    return update_metadata("conversation", id, read_request(UpdateConversation).metadata)


def delete(id: str) -> Response:
    run_query(tables.delete, "conversation", id)
    return deleted_response("conversation.deleted", id)


def add_items(id: str) -> Response:
    items = run_query(_append, id, _new_items(read_request(CreateItems).items))
    return list_of([json.loads(item.value) for item in items], has_more=False)


def list_items(id: str) -> Response:
    page = run_query(listing.list_items, "conversation", id, "conversation", page_query())
    return list_response(page)


def get_item(id: str, item_id: str) -> Response:
    return json_response(200, run_query(tables.find_item, id, item_id).encode())


def delete_item(id: str, item_id: str) -> Response:
    run_query(tables.delete_item, id, item_id)
    return get(id)


def _new_items(items: list[InputItem]) -> list[dict[str, Any]]:
    """The items of the current request, checked as a response checks its input."""
    if len(items) > MAX_NEW_ITEMS:
        rule = f"items may hold at most {MAX_NEW_ITEMS} items, got {len(items)}"
        raise InvalidParameter(rule, "items")
    to_chat_messages(ResponsesRequest(input=items), "items")
    sent_items: list[dict[str, Any]] = json_body.read().get("items") or []
    return resolve_references(sent_items, "items")


def _append(
    connection: sqlite3.Connection, owner: str, id: str, new_items: list[dict[str, Any]]
) -> list[StoredItem]:
    items = to_stored_items(new_items, tables.item_ids(connection, owner, id))
    tables.append(connection, owner, id, items)
    return items


def _insert(connection: sqlite3.Connection, owner: str, id: str, value: str, items: list[StoredItem]) -> None:
    conversation = StoredObject(owner=owner, kind="conversation", id=id, value=value)
    tables.insert(connection, conversation, {"conversation": items})


ROUTES = (
    StoredRoute("POST", "/conversations", create, CREATE),
    StoredRoute("GET", "/conversations/<id>", get, GET),
    StoredRoute("POST", "/conversations/<id>", update, UPDATE),
    StoredRoute("DELETE", "/conversations/<id>", delete, DELETE),
    StoredRoute("POST", "/conversations/<id>/items", add_items, ADD_ITEMS),
    StoredRoute("GET", "/conversations/<id>/items", list_items, LIST_ITEMS),
    StoredRoute("GET", "/conversations/<id>/items/<item_id>", get_item, GET_ITEM),
    StoredRoute("DELETE", "/conversations/<id>/items/<item_id>", delete_item, DELETE_ITEM),
)
