"""What the routes of stored objects share: queries of the store, the pages of a list, metadata.

Knows the errors and lists of OpenAI's API. Does not know what a response or a conversation is.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, cast

from flask import Response, request

from api.body.json_body import encode
from api.errors import json_response
from api.openai.errors import InvalidParameter
from api.openapi.operation import Operation
from api.store import tables
from api.store.access import request_owner, require_store
from api.store.context import ContextTooLong
from api.store.listing import Order, Page, PageQuery, page_of
from api.store.tables import Kind, StoredItem, UnknownId
from inference.database import Query
from inference.errors import NotFound, short

MAX_LIMIT, DEFAULT_LIMIT = 1000, 20  # OpenAI: 100; clients of Llama Stack ask for 1,000
MAX_PAIRS, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512  # of metadata; OpenAI's limits
METADATA_FILTER = "metadata["  # metadata[key]=value in the query of a list
NAMES = {"response": "Response", "chat": "Chat completion", "conversation": "Conversation", "item": "Item"}

PAGE_PARAMETERS = {
    "after": "list what follows the object with this id",
    "limit": f"objects of a page, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} by default",
    "order": "asc or desc, by the time of creation",
}

Result = TypeVar("Result")


class StoredRoute(NamedTuple):
    """A route of stored objects.

    path: below /v1, and below the prefix of Llama Stack's clients
    """

    method: str
    path: str
    view: Callable[..., Response]
    operation: Operation


def run_query(query: Query[..., Result], *args: Any) -> Result:
    """Call `query` with the connection, the request's owner and `args`. Raises as `clients_errors`."""
    with clients_errors():
        return require_store().run(query, request_owner(), *args)


@contextmanager
def clients_errors() -> Iterator[None]:
    """Raises NotFound for an unknown id, InvalidParameter for an unknown cursor or a too long context."""
    try:
        yield
    except UnknownId as error:
        if error.kind == "after":
            raise InvalidParameter(f"after: the list has no {short(error.id)}", "after") from None
        raise NotFound(f"{NAMES[error.kind]} with id {short(error.id)} not found.") from None
    except ContextTooLong as error:
        raise InvalidParameter(f"{error}: begin a new conversation", "input") from None


def object_response(kind: Kind, id: str) -> Response:
    """The JSON of a stored object. Raises NotFound."""
    return json_response(200, run_query(tables.find, kind, id).encode())


def update_metadata(kind: Kind, id: str, metadata: Mapping[str, str] | None) -> Response:
    """Replace the metadata of a stored object; its JSON. Raises NotFound, InvalidParameter."""
    check_metadata(metadata)
    value = encode(metadata or {}).decode()
    return json_response(200, run_query(tables.set_metadata, kind, id, value).encode())


def page_query(
    default_order: Order = "desc", default_limit: int = DEFAULT_LIMIT, max_limit: int = MAX_LIMIT
) -> PageQuery:
    """The page that the request's query parameters name. Raises InvalidParameter."""
    limit, order = request.args.get("limit", str(default_limit)), request.args.get("order", default_order)
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= max_limit):
        raise InvalidParameter(f"limit must be 1 to {max_limit}, got {short(limit)}", "limit")
    if order not in ("asc", "desc"):
        raise InvalidParameter(f"order must be asc or desc, got {short(order)}", "order")
    return PageQuery(int(limit), cast(Order, order), request.args.get("after"))


def page_response(items: Sequence[StoredItem], query: PageQuery) -> Response:
    """The JSON of a page of a list that is in memory, oldest first."""
    with clients_errors():
        return list_response(page_of(items, query))


def list_response(page: Page) -> Response:
    """The JSON of a page of values."""
    return list_of([json.loads(row.value) for row in page.rows], page.has_more)


def list_of(values: list[dict[str, Any]], has_more: bool) -> Response:
    ids = [value["id"] for value in values] or [None]
    body = {"object": "list", "data": values, "first_id": ids[0], "last_id": ids[-1], "has_more": has_more}
    return json_response(200, body)


def deleted_response(object_name: str, id: str) -> Response:
    return json_response(200, {"id": id, "object": object_name, "deleted": True})


def read_metadata_filter() -> dict[str, str]:
    """The pairs of metadata[key]=value in the request's query. Raises InvalidParameter."""
    metadata = {
        name.removeprefix(METADATA_FILTER).removesuffix("]"): value
        for name, value in request.args.items()
        if name.startswith(METADATA_FILTER)
    }
    if len(metadata) > MAX_PAIRS:
        rule = f"metadata may have at most {MAX_PAIRS} pairs, got {len(metadata)}"
        raise InvalidParameter(rule, "metadata")
    return metadata


def check_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Raises InvalidParameter."""
    if metadata is None:
        return
    if len(metadata) > MAX_PAIRS:
        rule = f"metadata may have at most {MAX_PAIRS} pairs, got {len(metadata)}"
        raise InvalidParameter(rule, "metadata")
    for key, value in metadata.items():
        if len(key) > MAX_KEY_CHARS:
            rule = f"metadata: a key may have at most {MAX_KEY_CHARS} characters, got {len(key)}"
            raise InvalidParameter(rule, "metadata")
        if not isinstance(value, str):
            raise InvalidParameter(f"metadata.{key} must be a string", f"metadata.{key}")
        if len(value) > MAX_VALUE_CHARS:
            rule = f"metadata.{key} may have at most {MAX_VALUE_CHARS} characters, got {len(value)}"
            raise InvalidParameter(rule, f"metadata.{key}")
