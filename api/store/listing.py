"""Lists the objects of an owner, and the items of an object, page by page."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple

from api.store.tables import Kind, Origin, StoredItem, UnknownId, find_number, lookup_number

Order = Literal["asc", "desc"]

MAX_PAGE_BYTES = 16 << 20  # of JSON


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which rows to list: at most `limit` after the row with the id `after`."""

    limit: int = 20
    order: Order = "desc"
    after: str | None = None


class Page(NamedTuple):
    """Some rows of a list.

    has_more: there are further rows after these.
    """

    rows: list[StoredItem]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects to list. metadata: pairs that the object's JSON has in its field `metadata`."""

    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def list_objects(
    connection: sqlite3.Connection, owner: str, kind: Kind, query: PageQuery, filter: Filter
) -> Page:
    """Raises UnknownId for the cursor."""
    where, values = "owner = ? AND kind = ?", [owner, kind]
    if filter.model is not None:
        where, values = where + " AND model = ?", [*values, filter.model]
    if filter.metadata:  # the JSON of an object may be large: it is parsed once for all pairs
        pairs = ", ".join(["(?, ?)"] * len(filter.metadata))
        where += (
            " AND (SELECT count(*) FROM json_each(objects.value, '$.metadata') AS pair"
            f" WHERE (pair.key, pair.value) IN (VALUES {pairs})) = {len(filter.metadata)}"
        )
        values += chain.from_iterable(filter.metadata.items())
    after = None
    if query.after is not None:
        after = lookup_number(connection, owner, kind, query.after)
        if after is None:
            raise UnknownId("after", query.after)
    return _list(connection, "objects", where, values, query, after)


def list_items(
    connection: sqlite3.Connection, owner: str, kind: Kind, id: str, origin: Origin, query: PageQuery
) -> Page:
    """The items of one origin of an object. Raises UnknownId."""
    number = find_number(connection, owner, kind, id)
    after = None
    if query.after is not None:
        row = connection.execute(
            "SELECT number FROM items WHERE object = ? AND origin = ? AND id = ?",
            (number, origin, query.after),
        ).fetchone()
        if row is None:
            raise UnknownId("after", query.after)
        after = int(row[0])
    return _list(connection, "items", "object = ? AND origin = ?", [number, origin], query, after)


def all_items(
    connection: sqlite3.Connection, owner: str, kind: Kind, id: str, origin: Origin
) -> list[StoredItem]:
    """All items of one origin of an object, oldest first. Raises UnknownId."""
    rows = connection.execute(
        "SELECT id, value FROM items WHERE object = ? AND origin = ? ORDER BY number",
        (find_number(connection, owner, kind, id), origin),
    )
    return [StoredItem(*row) for row in rows]


def page_of(items: Sequence[StoredItem], query: PageQuery) -> Page:
    """The page of a list that is in memory, oldest first."""
    ordered = list(items if query.order == "asc" else reversed(items))
    start = 0
    if query.after is not None:
        ids = [item.id for item in ordered]
        if query.after not in ids:
            raise UnknownId("after", query.after)
        start = ids.index(query.after) + 1
    return cut_page(ordered[start:], query.limit)


def cut_page(rows: Iterable[StoredItem], limit: int) -> Page:
    """The first `limit` rows, or fewer if these exceed MAX_PAGE_BYTES, but at least one if there is one."""
    page: list[StoredItem] = []
    num_bytes = 0
    for row in rows:
        num_bytes += len(row.value)
        if len(page) == limit or (page and num_bytes > MAX_PAGE_BYTES):
            return Page(page, has_more=True)
        page.append(row)
    return Page(page, has_more=False)


def _list(
    connection: sqlite3.Connection,
    table: str,
    where: str,
    values: Sequence[str | int],
    query: PageQuery,
    after: int | None,
) -> Page:
    if after is not None:
        where += f" AND number {'>' if query.order == 'asc' else '<'} {after}"
    rows = connection.execute(
        f"SELECT id, value FROM {table} WHERE {where} ORDER BY number {query.order} LIMIT ?",
        (*values, query.limit + 1),
    )
    return cut_page((StoredItem(*row) for row in rows), query.limit)
