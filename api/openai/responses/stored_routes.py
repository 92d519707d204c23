"""The routes of stored responses: show, list, delete, cancel, and the items that a response was made from."""

import json
import sqlite3

from flask import Response, request

from api.errors import json_response
from api.openai.errors import InvalidParameter
from api.openai.responses.background import BackgroundRun, current_runs
from api.openai.responses.connection import is_handshake
from api.openai.responses.protocol import (
    CANCEL_RESPONSE,
    DELETE_RESPONSE,
    GET_RESPONSE,
    LIST_INPUT_ITEMS,
    LIST_RESPONSES,
)
from api.openai.stored import (
    StoredRoute,
    deleted_response,
    list_response,
    page_query,
    page_response,
    run_query,
)
from api.store import listing
from api.store.access import request_owner
from api.store.context import input_of_response
from api.store.listing import Filter, Page, PageQuery
from api.store.tables import StoredItem, delete, find

NO_RESUMING = "stream is not supported here: this server streams a response only while it is created"


def get_response(id: str) -> Response:
    if request.args.get("stream", "").lower() in ("true", "1"):
        raise InvalidParameter(NO_RESUMING, "stream")
    run = _find_run(id)
    if run:
        return json_response(200, run.response())
    return json_response(200, run_query(find, "response", id).encode())


def list_responses() -> Response:
    """A page of them. The handshake of a WebSocket has the same method and path: it is accepted."""
    if is_handshake():
        return Response(status=101)
    return list_response(run_query(_list_with_input, page_query(), Filter(request.args.get("model"))))


def delete_response(id: str) -> Response:
    run_query(delete, "response", id)
    if run := current_runs().pop((request_owner(), id), None):
        run.cancel()
    return deleted_response("response", id)


def cancel_response(id: str) -> Response:
    if run := _find_run(id):
        run.cancel()
        return json_response(200, run.response())
    value = run_query(find, "response", id)
    if not json.loads(value)["background"]:
        raise InvalidParameter(
            "Cannot cancel a synchronous response: it was created without background: true"
        )
    return json_response(200, value.encode())


def list_input_items(id: str) -> Response:
    return page_response(run_query(input_of_response, id), page_query())


def _find_run(id: str) -> BackgroundRun | None:
    return current_runs().get((request_owner(), id))


def _list_with_input(connection: sqlite3.Connection, owner: str, query: PageQuery, filter: Filter) -> Page:
    """A page of responses, each with the items of its request."""
    page = listing.list_objects(connection, owner, "response", query, filter)

    def with_input(row: StoredItem) -> StoredItem:
        items = listing.all_items(connection, owner, "response", row.id, "input")
        joined_items = ", ".join(item.value for item in items)
        return StoredItem(row.id, f'{row.value[:-1]}, "input": [{joined_items}]}}')

    rows, has_more = listing.cut_page(map(with_input, page.rows), query.limit)
    return Page(rows, has_more or page.has_more)


ROUTES = (
    StoredRoute("GET", "/responses", list_responses, LIST_RESPONSES),
    StoredRoute("GET", "/responses/<id>", get_response, GET_RESPONSE),
    StoredRoute("DELETE", "/responses/<id>", delete_response, DELETE_RESPONSE),
    StoredRoute("POST", "/responses/<id>/cancel", cancel_response, CANCEL_RESPONSE),
    StoredRoute("GET", "/responses/<id>/input_items", list_input_items, LIST_INPUT_ITEMS),
)
