"""Reads and writes the objects of the store and their items. Every function runs in the caller's transaction.

An object is a response, a chat completion or a conversation. An item is a part of its input, of its output,
or of a conversation. Values are JSON text that this module does not interpret. An owner sees only its own
rows.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["response", "chat", "conversation"]
Origin = Literal["input", "output", "conversation"]


class StoredItem(NamedTuple):
    id: str
    value: str


Items = Mapping[Origin, Sequence[StoredItem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """A response, a conversation or a chat completion, as JSON.

    previous          id of the response that this response continues
    conversation      id of the conversation that this response continues
    conversation_end  number of the conversation's last item before this response
    is_running        the response is in progress, and a later `finish` completes it
    """

    owner: str
    kind: Kind
    id: str
    value: str
    model: str | None = None
    previous: str | None = None
    conversation: str | None = None
    conversation_end: int = 0
    is_running: bool = False


class UnknownId(Exception):
    """No row of the owner has this id.

    kind  what was looked for: a Kind, "item", or "after" for the cursor of a page
    """

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(kind, id)
        self.kind, self.id = kind, id


def insert(connection: sqlite3.Connection, new: StoredObject, items: Items) -> None:
    """Store an object and its items. It replaces the owner's object of the same kind and id."""
    connection.execute(
        "DELETE FROM objects WHERE owner = ? AND kind = ? AND id = ?", (new.owner, new.kind, new.id)
    )
    cursor = connection.execute(
        "INSERT INTO objects (owner, kind, id, model, previous, conversation, conversation_end, is_running,"
        " changed, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(new.owner, new.kind, new.id, new.model, new.previous, new.conversation),
            *(new.conversation_end, new.is_running, time.time(), new.value),
        ),
    )
    assert cursor.lastrowid is not None
    for origin, each in items.items():
        _insert_items(connection, cursor.lastrowid, new.owner, origin, each)


def finish(connection: sqlite3.Connection, running: StoredObject, output: Sequence[StoredItem]) -> bool:
    """Complete an object that was stored as running. Returns False if it was deleted meanwhile."""
    number = lookup_number(connection, running.owner, running.kind, running.id)
    if number is None:
        return False
    connection.execute(
        "UPDATE objects SET value = ?, is_running = 0, changed = ? WHERE number = ?",
        (running.value, time.time(), number),
    )
    _insert_items(connection, number, running.owner, "output", output)
    return True


def append(
    connection: sqlite3.Connection, owner: str, conversation: str, items: Sequence[StoredItem]
) -> None:
    """Add items to a conversation. Raises UnknownId."""
    number = find_number(connection, owner, "conversation", conversation)
    _insert_items(connection, number, owner, "conversation", items)
    connection.execute("UPDATE objects SET changed = ? WHERE number = ?", (time.time(), number))


def item_ids(connection: sqlite3.Connection, owner: str, conversation: str) -> set[str]:
    """The ids of a conversation's items. Raises UnknownId."""
    number = find_number(connection, owner, "conversation", conversation)
    return {str(id) for (id,) in connection.execute("SELECT id FROM items WHERE object = ?", (number,))}


def set_metadata(connection: sqlite3.Connection, owner: str, kind: Kind, id: str, metadata: str) -> str:
    """Replace the field `metadata` in the JSON of an object. Returns the new value. Raises UnknownId."""
    number = find_number(connection, owner, kind, id)
    connection.execute(
        "UPDATE objects SET value = json_set(value, '$.metadata', json(?)) WHERE number = ?",
        (metadata, number),
    )
    return find(connection, owner, kind, id)


def delete(connection: sqlite3.Connection, owner: str, kind: Kind, id: str) -> None:
    """Delete an object with its items. Raises UnknownId."""
    number = find_number(connection, owner, kind, id)
    connection.execute("DELETE FROM objects WHERE number = ?", (number,))


def delete_item(connection: sqlite3.Connection, owner: str, conversation: str, id: str) -> None:
    """Raises UnknownId."""
    number = find_number(connection, owner, "conversation", conversation)
    if not connection.execute("DELETE FROM items WHERE object = ? AND id = ?", (number, id)).rowcount:
        raise UnknownId("item", id)


def find(connection: sqlite3.Connection, owner: str, kind: Kind, id: str) -> str:
    """The value of an object. Raises UnknownId."""
    number = find_number(connection, owner, kind, id)
    (value,) = connection.execute("SELECT value FROM objects WHERE number = ?", (number,)).fetchone()
    return str(value)


def find_number(connection: sqlite3.Connection, owner: str, kind: Kind, id: str) -> int:
    """The number of an object's row. Raises UnknownId."""
    number = lookup_number(connection, owner, kind, id)
    if number is None:
        raise UnknownId(kind, id)
    return number


def lookup_number(connection: sqlite3.Connection, owner: str, kind: Kind, id: str) -> int | None:
    row = connection.execute(
        "SELECT number FROM objects WHERE owner = ? AND kind = ? AND id = ?", (owner, kind, id)
    ).fetchone()
    return row and int(row[0])


def find_item(connection: sqlite3.Connection, owner: str, conversation: str, id: str) -> str:
    """The value of a conversation's item. Raises UnknownId."""
    number = find_number(connection, owner, "conversation", conversation)
    row = connection.execute("SELECT value FROM items WHERE object = ? AND id = ?", (number, id)).fetchone()
    if row is None:
        raise UnknownId("item", id)
    return str(row[0])


def _insert_items(
    connection: sqlite3.Connection, number: int, owner: str, origin: Origin, items: Sequence[StoredItem]
) -> None:
    connection.executemany(
        "INSERT INTO items (object, owner, origin, id, value) VALUES (?, ?, ?, ?, ?)",
        [(number, owner, origin, item.id, item.value) for item in items],
    )
