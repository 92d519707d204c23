"""The store's file: who may read it, what survives a restart, and a file that is corrupt, locked or full."""

import json
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.store.context import find_items
from api.store.listing import Filter, PageQuery, list_objects
from api.store.schema import TABLES
from api.store.store import Store, open_store
from api.store.tables import StoredItem, StoredObject, UnknownId, find, insert
from inference import database
from inference.database import StoreFailed
from settings.groups import OFF

HOUR_S = 3600.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "responses.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = Store(file, 10**8, HOUR_S)
    yield store
    store.close()


def put(store: Store, id: str, owner: str = "", text: str = "hi", is_running: bool = False) -> None:
    value = json.dumps({"id": id, "status": "in_progress" if is_running else "completed", "text": text})
    item = StoredItem(f"msg_{id}", json.dumps({"text": text}))
    new = StoredObject(owner=owner, kind="response", id=id, value=value, is_running=is_running)
    store.run(insert, new, {"input": [item]})


def get(store: Store, id: str, owner: str = "") -> dict[str, str]:
    value: dict[str, str] = json.loads(store.run(find, owner, "response", id))
    return value


def has(store: Store, id: str, owner: str = "") -> bool:
    try:
        get(store, id, owner)
    except UnknownId:
        return False
    return True


@pytest.mark.system("posix")
def test_only_the_servers_user_may_read_the_files(store: Store, file: Path) -> None:
    put(store, "a")
    written = [file.with_name(file.name + suffix) for suffix in ("", "-wal", "-shm")]
    assert [path.stat().st_mode & 0o777 for path in written] == [0o600] * 3
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.system("posix")
def test_a_file_that_others_may_read_is_closed_to_them(file: Path) -> None:
    file.parent.mkdir()
    file.touch(0o644)
    Store(file, 10**8, HOUR_S).close()
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_stored_survives_a_restart(file: Path) -> None:
    first = Store(file, 10**8, HOUR_S)
    put(first, "a", text="kept?")
    first.close()
    second = Store(file, 10**8, HOUR_S)
    assert get(second, "a")["text"] == "kept?"
    second.close()


def test_another_owner_sees_nothing(store: Store) -> None:
    put(store, "a", owner="alice")
    assert has(store, "a", "alice") and not has(store, "a", "bob") and not has(store, "a")
    assert store.run(find_items, "bob", ["msg_a"]) == {}
    assert list(store.run(find_items, "alice", ["msg_a"])) == ["msg_a"]


def test_two_owners_may_have_the_same_id(store: Store) -> None:
    put(store, "a", owner="alice", text="hers")
    put(store, "a", owner="bob", text="his")
    put(store, "a", owner="bob", text="his second")
    assert (get(store, "a", "alice")["text"], get(store, "a", "bob")["text"]) == ("hers", "his second")


@pytest.mark.parametrize("content", [b"this is no database " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupt_file_is_moved_aside(file: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    store = Store(file, 10**8, HOUR_S)
    put(store, "a")
    assert has(store, "a")
    assert file.with_name("responses.db.unreadable-1").read_bytes() == content
    assert "cannot be read" in caplog.text
    store.close()


def test_a_file_of_a_newer_version_is_moved_aside(file: Path) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as connection:
        connection.executescript(f"{TABLES} PRAGMA user_version = 99;")
    connection.close()
    store = Store(file, 10**8, HOUR_S)
    put(store, "a")
    store.close()
    assert file.with_name("responses.db.unreadable-1").exists()


def test_a_file_that_becomes_corrupt_is_replaced(store: Store, file: Path) -> None:
    def break_it(connection: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    put(store, "a")
    with pytest.raises(StoreFailed, match="malformed"):
        store.run(break_it)
    put(store, "b")
    assert has(store, "b") and not has(store, "a")


def test_what_is_older_than_the_limit_is_deleted(file: Path) -> None:
    store = Store(file, 10**8, HOUR_S, sweep_every_s=0)
    put(store, "a")
    store.run(lambda connection: connection.execute("UPDATE objects SET changed = changed - ?", [2 * HOUR_S]))
    put(store, "b")
    assert has(store, "b") and not has(store, "a")
    assert store.run(find_items, "", ["msg_a"]) == {}
    store.close()


def test_what_has_expired_is_deleted_at_the_start(file: Path) -> None:
    first = Store(file, 10**8, HOUR_S)
    put(first, "a")
    first.close()
    Store(file, 10**8, max_age_s=0).close()
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (0,)
    connection.close()


def test_the_oldest_are_deleted_beyond_the_largest_size(file: Path) -> None:
    store = Store(file, 1_000_000, HOUR_S)
    for number in range(40):
        put(store, str(number), text="x" * 50_000)
    remaining = [number for number in range(40) if has(store, str(number))]
    assert remaining == list(range(40 - len(remaining), 40)) and 5 <= len(remaining) < 20
    store.close()
    assert file.stat().st_size < 1_300_000


def test_a_full_disk_fails_one_query_and_no_later_one(store: Store) -> None:
    put(store, "a")
    (pages,) = store.run(lambda connection: connection.execute("PRAGMA page_count").fetchone())
    store.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    with pytest.raises(StoreFailed, match="full"):
        put(store, "b", text="x" * 100_000)
    assert has(store, "a") and not has(store, "b")


def test_a_locked_file_fails_in_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    store = Store(file, 10**8, HOUR_S)
    put(store, "a")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="locked"):
        put(store, "b")
    other.execute("ROLLBACK")
    other.close()
    put(store, "b")
    assert has(store, "b")
    store.close()


def test_an_error_rolls_the_transaction_back(store: Store) -> None:
    def insert_and_fail(connection: sqlite3.Connection) -> None:
        insert(connection, StoredObject(owner="", kind="response", id="a", value="{}"), {})
        raise UnknownId("response", "x")

    with pytest.raises(UnknownId):
        store.run(insert_and_fail)
    assert not has(store, "a")


def test_a_response_that_a_killed_server_left_unfinished_has_failed(file: Path) -> None:
    first = Store(file, 10**8, HOUR_S)
    put(first, "running", is_running=True)
    put(first, "done")
    second = Store(file, 10**8, HOUR_S)  # the first server still runs
    assert get(second, "running")["status"] == "in_progress"
    second.close()
    first.close()
    third = Store(file, 10**8, HOUR_S)
    running = get(third, "running")
    assert (running["status"], running["error"]["code"]) == ("failed", "server_error")  # type: ignore[index]
    assert get(third, "done")["status"] == "completed"
    third.close()


def test_a_closed_store_refuses_queries(file: Path) -> None:
    store = Store(file, 10**8, HOUR_S)
    store.close()
    with pytest.raises(StoreFailed, match="shutting down"):
        put(store, "a")


def test_a_file_that_cannot_be_opened_means_no_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert open_store(str(tmp_path / "file" / "responses.db"), 1, 1) is None
    assert "nothing is stored" in caplog.text


def test_the_store_can_be_switched_off() -> None:
    assert open_store(OFF, 1, 1) is None


def test_the_default_file_is_in_the_cache_folder(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = open_store("", 1, 1)
    assert store is not None and store.path.parts[-2:] == ("hearth", "responses.db")
    store.close()
    assert str(store.path) in caplog.text


def test_a_list_parses_each_object_once_for_all_pairs_of_metadata(store: Store) -> None:
    """A long conversation takes a millisecond, in which no other request reads or stores."""

    def count_parsers(connection: sqlite3.Connection, num_pairs: int) -> int:
        pairs = {str(number): "x" for number in range(num_pairs)}
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        list_objects(connection, "", "response", PageQuery(), Filter(metadata=pairs))
        connection.set_trace_callback(None)
        (statement,) = [each for each in statements if each.startswith("SELECT id, value")]
        return statement.count("json_each(")

    assert store.run(count_parsers, 1) == store.run(count_parsers, 16) == 1
