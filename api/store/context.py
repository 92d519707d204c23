"""The items that precede a response: those of the responses or of the conversation that it continues."""

import sqlite3
from collections.abc import Iterable, Sequence

from api.store.tables import StoredItem, UnknownId, find_number

MAX_CHAIN = 1000  # responses before a response, each the previous one of the next
MAX_CONTEXT_ITEMS = 10_000
MAX_CONTEXT_BYTES = 8 << 20  # of JSON; more than the text that fits a model's context

Span = tuple[str, tuple[int, ...]]  # a condition on rows of items, and its values


class ContextTooLong(Exception):
    """A chain of responses, or a conversation, with more items than a prompt can have."""


def context_of_response(connection: sqlite3.Connection, owner: str, id: str) -> list[StoredItem]:
    """All items up to the end of a response, its output included, oldest first.

    Raises UnknownId if a response of the chain was deleted, and ContextTooLong.
    """
    return _items_of_spans(connection, _spans(connection, owner, id))


def input_of_response(connection: sqlite3.Connection, owner: str, id: str) -> list[StoredItem]:
    """All items that a response was made from, oldest first. Raises as context_of_response."""
    *earlier_spans, (_, (number, *_)) = _spans(connection, owner, id)
    last_span = ("object = ? AND origin = 'input'", (number,))
    return _items_of_spans(connection, [*earlier_spans, last_span])


def _spans(connection: sqlite3.Connection, owner: str, id: str) -> list[Span]:
    """The spans of items up to the end of a response, oldest first; the last one is the response's own."""
    spans: list[Span] = []
    previous: str | None = id
    while previous is not None:
        row = connection.execute(
            "SELECT number, previous, conversation, conversation_end FROM objects"
            " WHERE owner = ? AND kind = 'response' AND id = ?",
            (owner, previous),
        ).fetchone()
        if row is None:
            raise UnknownId("response", previous)
        if len(spans) >= MAX_CHAIN:
            raise ContextTooLong(f"more than {MAX_CHAIN} responses precede the response {id}")
        number, previous, conversation, end = row
        spans.append(("object = ?", (number,)))
        if conversation is not None:
            conversation_number = find_number(connection, owner, "conversation", conversation)
            spans.append(("object = ? AND number <= ?", (conversation_number, end)))
    return spans[::-1]


def context_of_conversation(
    connection: sqlite3.Connection, owner: str, id: str
) -> tuple[list[StoredItem], int]:
    """The items of a conversation and the number of the last one. Raises UnknownId, ContextTooLong."""
    number = find_number(connection, owner, "conversation", id)
    (end,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM items WHERE object = ?", (number,)
    ).fetchone()
    return _items_of_spans(connection, [("object = ?", (number,))]), int(end)


def find_items(connection: sqlite3.Connection, owner: str, ids: Sequence[str]) -> dict[str, str]:
    """The values of items by id, wherever they are. An id that several items have is the newest one's.

    Ids without an item are absent. Raises ContextTooLong; an id that is listed twice counts twice.
    """
    values: dict[str, str] = {}
    num_bytes = 0
    for id in ids:
        if id not in values:
            row = connection.execute(
                "SELECT value FROM items WHERE owner = ? AND id = ? ORDER BY number DESC LIMIT 1", (owner, id)
            ).fetchone()
            if row is None:
                continue
            values[id] = str(row[0])
        num_bytes += len(values[id])
        _check_bytes(num_bytes)
    return values


def _items_of_spans(connection: sqlite3.Connection, spans: Iterable[Span]) -> list[StoredItem]:
    items: list[StoredItem] = []
    num_bytes = 0
    for where, values in spans:
        for row in connection.execute(f"SELECT id, value FROM items WHERE {where} ORDER BY number", values):
            items.append(StoredItem(*row))
            num_bytes += len(items[-1].value)
            _check_bytes(num_bytes)
            _check_count(len(items))
    return items


def check_length(items: Sequence[StoredItem]) -> None:
    """Check earlier turns that are not in the database. Raises ContextTooLong."""
    _check_bytes(sum(len(item.value) for item in items))
    _check_count(len(items))


def _check_count(num_items: int) -> None:
    if num_items > MAX_CONTEXT_ITEMS:
        raise ContextTooLong(f"the earlier turns have more than {MAX_CONTEXT_ITEMS} items")


def _check_bytes(num_bytes: int) -> None:
    if num_bytes > MAX_CONTEXT_BYTES:
        raise ContextTooLong(f"the earlier turns have more than {MAX_CONTEXT_BYTES} bytes")
