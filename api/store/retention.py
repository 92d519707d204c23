"""Keeps the database within its limits of age and size: the objects that changed longest ago are deleted."""

import sqlite3
import time

SHRUNK_SHARE = 0.98  # of the size limit is left after objects were deleted for it
DELETED_SHARE = 100  # one in so many objects is deleted at a time


def delete_expired(connection: sqlite3.Connection, max_age_s: float) -> int:
    """Delete the objects that did not change for `max_age_s`. Returns their number."""
    cursor = connection.execute("DELETE FROM objects WHERE changed < ?", (time.time() - max_age_s,))
    return cursor.rowcount


def shrink(connection: sqlite3.Connection, max_bytes: int) -> int:
    """If the database is larger than `max_bytes`, delete the oldest objects. Returns their number."""
    if used_bytes(connection) <= max_bytes:
        return 0
    num_deleted = 0
    while used_bytes(connection) > max_bytes * SHRUNK_SHARE:
        (count,) = connection.execute("SELECT count(*) FROM objects").fetchone()
        if count <= 1:
            break
        cursor = connection.execute(
            "DELETE FROM objects WHERE number IN (SELECT number FROM objects ORDER BY changed LIMIT ?)",
            (max(1, count // DELETED_SHARE),),
        )
        num_deleted += cursor.rowcount
    return num_deleted


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the pages in use. Free pages stay in the file, and later rows take them."""
    count, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((count - free) * size)
