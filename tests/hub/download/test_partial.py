"""A partial file: bytes in any order, and a journal that records which ones are there."""

import random
from pathlib import Path

import pytest

from hub.download.partial import PartialFile, count_written_bytes, partial_paths

PIECE_BYTES = 100
SIZE = 1037


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    return tmp_path / "blobs" / "etag"


@pytest.fixture
def data() -> bytes:
    return random.Random(1).randbytes(SIZE)


def write(partial: PartialFile, start: int, data: bytes) -> None:
    with partial.open_writer(start) as writer:
        writer.write(data)


def test_pieces_written_in_any_order_make_the_file(blob: Path, data: bytes) -> None:
    partial = PartialFile(blob, SIZE, PIECE_BYTES)
    order = list(range(len(partial.piece_progress)))
    random.Random(2).shuffle(order)
    for index in order:
        start, stop = partial.missing_range(index)
        write(partial, start, data[start : start + 30])
        write(partial, partial.missing_range(index)[0], data[start + 30 : stop])
    assert partial.contiguous_bytes == partial.written_bytes == SIZE
    partial.publish()
    assert blob.read_bytes() == data and not any(path.exists() for path in partial_paths(blob))


def test_another_process_knows_the_written_bytes(blob: Path, data: bytes) -> None:
    first = PartialFile(blob, SIZE, PIECE_BYTES)
    write(first, 0, data[:250])
    write(first, 700, data[700:760])
    second = PartialFile(blob, SIZE, 7)
    assert (second.piece_bytes, second.piece_progress) == (
        PIECE_BYTES,
        [100, 100, 50, 0, 0, 0, 0, 60, 0, 0, 0],
    )
    assert count_written_bytes(blob, SIZE) == 310 and second.contiguous_bytes == 200


def test_contiguous_bytes_end_at_the_first_gap(blob: Path, data: bytes) -> None:
    partial = PartialFile(blob, SIZE, PIECE_BYTES)
    write(partial, 100, data[100:300])
    assert partial.contiguous_bytes == 0
    write(partial, 0, data[:99])
    assert partial.contiguous_bytes == 0
    write(partial, 99, data[99:100])
    assert partial.contiguous_bytes == 300


def test_written_bytes_can_be_read_in_blocks(blob: Path, data: bytes) -> None:
    partial = PartialFile(blob, SIZE, PIECE_BYTES)
    write(partial, 0, data)
    assert b"".join(bytes(view) for view in partial.read_blocks(13, 1000, bytearray(64))) == data[13:1000]


def test_a_file_of_another_size_is_another_file(blob: Path, data: bytes) -> None:
    write(PartialFile(blob, SIZE, PIECE_BYTES), 0, data)
    assert PartialFile(blob, SIZE + PIECE_BYTES, PIECE_BYTES).written_bytes == 0


@pytest.mark.system("posix")  # Windows renames no open file
def test_a_late_writer_does_not_change_the_published_file(blob: Path, data: bytes) -> None:
    partial = PartialFile(blob, SIZE, PIECE_BYTES)
    with partial.open_writer(0) as late:
        write(partial, 0, data)
        partial.publish()
        late.write(data[:50])
    assert blob.read_bytes() == data


def test_publishing_twice_keeps_the_first_file(blob: Path, data: bytes) -> None:
    first, second = PartialFile(blob, SIZE, PIECE_BYTES), PartialFile(blob, SIZE, PIECE_BYTES)
    write(first, 0, data)
    first.publish()
    second.publish()
    assert blob.read_bytes() == data


def test_a_file_without_bytes_is_complete_at_once(blob: Path) -> None:
    partial = PartialFile(blob, 0, PIECE_BYTES)
    assert (partial.piece_progress, partial.contiguous_bytes) == ([], 0)
    partial.publish()
    assert blob.read_bytes() == b""
