"""An uploaded file has a JSON object on each line; refusals name the line."""

import gzip
from pathlib import Path

import pytest

from inference.errors import BadRequest
from tuning.data.rows import open_rows
from tuning.jsonl import count_rows

UTF_8_MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("content", [b'{"a": 1}\n\n{"a": 2}', UTF_8_MARK + b'{"a": 1}\r\n{"a": 2}\r\n'])
def test_rows_are_counted_and_read_alike(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    assert count_rows(path, "file") == len(list(open_rows(path))) == 2


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{}\n{"a": "\xff"}', "Line 2: is not UTF-8: its byte 8 is 0xff: save the file as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "Line 1: is UTF-16: save the file as UTF-8"),
        (gzip.compress(b"{}", mtime=0), "Line 1: is gzip: decompress the file"),
        (
            b"{\n}",
            "Line 1: is not JSON: Expecting property name enclosed in double quotes at character 3, where",
        ),
        (b"{}\n" + UTF_8_MARK + b"{}", "Line 2: is not JSON in UTF-8: UTF-8 byte order mark"),
        (b"{}\n[]", "Line 2: must be a JSON object"),
        (b'{"a": NaN}', "Line 1: is not JSON"),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "Line 1: it is nested deeper than 100 levels"),
        (b"{}\n" + b"[" * 100_000, "Line 2: is not JSON"),
        (b'{"a": "' + b"x" * 4_000_000 + b'"}', "Line 1: a line may have at most 4000000 bytes"),
        (b"\n\n", "the file has no rows"),
        (UTF_8_MARK, "the file has no rows"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(BadRequest) as refused:
        count_rows(path, "file")
    assert refused.value.message.startswith(message)
    assert refused.value.field == "file"
