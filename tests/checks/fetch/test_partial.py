"""A file on its way: bytes in any order, and a journal that tells what is there."""

import random
from pathlib import Path

import pytest

from checks.fetch.partial import Partial, beside, written

PIECE = 100
SIZE = 1037


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    return tmp_path / "blobs" / "etag"


@pytest.fixture
def data() -> bytes:
    return random.Random(1).randbytes(SIZE)


def write(partial: Partial, start: int, data: bytes) -> None:
    with partial.writing(start) as pen:
        pen.write(data)


def test_pieces_that_come_in_any_order_make_the_file(blob: Path, data: bytes) -> None:
    partial = Partial(blob, SIZE, PIECE)
    order = list(range(len(partial.done)))
    random.Random(2).shuffle(order)
    for index in order:
        start, stop = partial.gap(index)
        write(partial, start, data[start : start + 30])
        write(partial, partial.gap(index)[0], data[start + 30 : stop])
    assert partial.whole == partial.written == SIZE
    partial.publish()
    assert blob.read_bytes() == data and not any(path.exists() for path in beside(blob))


def test_another_process_knows_what_is_there(blob: Path, data: bytes) -> None:
    first = Partial(blob, SIZE, PIECE)
    write(first, 0, data[:250])
    write(first, 700, data[700:760])
    second = Partial(blob, SIZE, 7)
    assert (second.piece, second.done) == (PIECE, [100, 100, 50, 0, 0, 0, 0, 60, 0, 0, 0])
    assert written(blob, SIZE) == 310 and second.whole == 200


def test_what_is_whole_ends_at_the_first_gap(blob: Path, data: bytes) -> None:
    partial = Partial(blob, SIZE, PIECE)
    write(partial, 100, data[100:300])
    assert partial.whole == 0
    write(partial, 0, data[:99])
    assert partial.whole == 0
    write(partial, 99, data[99:100])
    assert partial.whole == 300


def test_the_bytes_there_can_be_read_in_blocks(blob: Path, data: bytes) -> None:
    partial = Partial(blob, SIZE, PIECE)
    write(partial, 0, data)
    assert b"".join(bytes(view) for view in partial.reading(13, 1000, bytearray(64))) == data[13:1000]


def test_a_file_of_another_size_is_another_file(blob: Path, data: bytes) -> None:
    write(Partial(blob, SIZE, PIECE), 0, data)
    assert Partial(blob, SIZE + PIECE, PIECE).written == 0


def test_a_late_writer_does_not_change_what_is_published(blob: Path, data: bytes) -> None:
    partial = Partial(blob, SIZE, PIECE)
    with partial.writing(0) as late:
        write(partial, 0, data)
        partial.publish()
        late.write(data[:50])
    assert blob.read_bytes() == data


def test_one_of_two_that_publish_is_first(blob: Path, data: bytes) -> None:
    first, second = Partial(blob, SIZE, PIECE), Partial(blob, SIZE, PIECE)
    write(first, 0, data)
    first.publish()
    second.publish()
    assert blob.read_bytes() == data


def test_a_file_without_bytes_is_complete_at_once(blob: Path) -> None:
    partial = Partial(blob, 0, PIECE)
    assert (partial.done, partial.whole) == ([], 0)
    partial.publish()
    assert blob.read_bytes() == b""
