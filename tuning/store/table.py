"""A table of values of one type, each with an id and perhaps a parent, in the order of their insertion.

Every function runs in the caller's transaction.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from inference.errors import BadRequest, short
from inference.struct_types import ready

Sort = Literal["asc", "desc"]


class HasId(Protocol):
    @property
    def id(self) -> str: ...


Value = TypeVar("Value", bound=HasId)


class ListPage(NamedTuple, Generic[Value]):
    """A page of a list. has_more: there are further values after these."""

    values: list[Value]
    has_more: bool


class Table(Generic[Value]):
    """One table of the database.

    type: a dataclass that msgspec writes and reads.
    """

    def __init__(self, name: str, type: type[Value]) -> None:
        self.name = name
        self.type = type

    @property
    def definition(self) -> str:
        return (
            f"CREATE TABLE {self.name} (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
            f" parent TEXT NOT NULL, value TEXT NOT NULL);"
            f"CREATE INDEX {self.name}_of_parent ON {self.name} (parent, number);"
        )

    def insert(self, connection: sqlite3.Connection, value: Value, parent: str = "") -> None:
        """Raises sqlite3.IntegrityError if the id exists."""
        connection.execute(
            f"INSERT INTO {self.name} (id, parent, value) VALUES (?, ?, ?)",
            (value.id, parent, to_json(value)),
        )

    def update(self, connection: sqlite3.Connection, value: Value) -> None:
        connection.execute(
            f"UPDATE {self.name} SET value = ? WHERE id = ?",
            (to_json(value), value.id),
        )

    def delete(self, connection: sqlite3.Connection, id: str) -> None:
        connection.execute(f"DELETE FROM {self.name} WHERE id = ?", (id,))

    def find(self, connection: sqlite3.Connection, id: str) -> Value | None:
        row = connection.execute(f"SELECT value FROM {self.name} WHERE id = ?", (id,)).fetchone()
        return row and msgspec.json.decode(row[0], type=ready(self.type))

    def all(self, connection: sqlite3.Connection, parent: str = "") -> list[Value]:
        """The values of a parent, oldest first."""
        return list(self._iterate(connection, parent, "asc"))

    def everything(self, connection: sqlite3.Connection) -> list[Value]:
        """The values of all parents, newest first."""
        rows = connection.execute(f"SELECT value FROM {self.name} ORDER BY number DESC")
        return [msgspec.json.decode(value, type=ready(self.type)) for (value,) in rows]

    def select(self, connection: sqlite3.Connection, field: str, options: Sequence[str]) -> Iterator[Value]:
        """The values with one of these texts in a field, oldest first."""
        marks = ",".join("?" * len(options))
        rows = connection.execute(
            f"SELECT value FROM {self.name} WHERE json_extract(value, ?) IN ({marks}) ORDER BY number",
            (f"$.{field}", *options),
        )
        return (msgspec.json.decode(value, type=ready(self.type)) for (value,) in rows)

    def page(
        self,
        connection: sqlite3.Connection,
        parent: str = "",
        *,
        limit: int,
        after: str | None = None,
        sort: Sort = "desc",
        accept: Callable[[Value], bool] = lambda value: True,
    ) -> ListPage[Value]:
        """The first `limit` values that `accept` is true of, behind the one with the id `after`.

        Raises BadRequest if the list has no `after`.
        """
        values: list[Value] = []
        for value in self._iterate(connection, parent, sort, after):
            if accept(value):
                if len(values) == limit:
                    return ListPage(values, has_more=True)
                values.append(value)
        return ListPage(values, has_more=False)

    def _iterate(
        self, connection: sqlite3.Connection, parent: str, sort: Sort, after: str | None = None
    ) -> Iterator[Value]:
        where, parameters = "parent = ?", [parent]
        if after is not None:
            where += f" AND number {'>' if sort == 'asc' else '<'} ?"
            parameters.append(self._number_of_cursor(connection, parent, after))
        rows = connection.execute(
            f"SELECT value FROM {self.name} WHERE {where} ORDER BY number {sort}", parameters
        )
        return (msgspec.json.decode(value, type=ready(self.type)) for (value,) in rows)

    def _number_of_cursor(self, connection: sqlite3.Connection, parent: str, after: str) -> Any:
        row = connection.execute(
            f"SELECT number FROM {self.name} WHERE parent = ? AND id = ?", (parent, after)
        ).fetchone()
        if row is None:
            raise BadRequest("after", f"must be the id of a listed object, got {short(after)}")
        return row[0]


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
