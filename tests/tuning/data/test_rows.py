"""Rows are read with the line where each begins."""

import gzip
import json
from pathlib import Path

import pytest

from tests.tuning.data.datasets import write_jsonl
from tuning.data.examples import InvalidDataset
from tuning.data.rows import open_rows


def write(path: Path, content: bytes) -> Path:
    file = path / "rows"
    file.write_bytes(content)
    return file


def test_each_line_is_an_object_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, b'\n{"a": 1}\r\n   \r\n\r\n{"b": "\xc3\xa9"}')
    assert list(open_rows(path)) == [(2, {"a": 1}), (5, {"b": "é"})]


def test_a_byte_order_mark_of_utf_8_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    assert list(open_rows(write(tmp_path, b'\xef\xbb\xbf{"a": 1}'))) == [(1, {"a": 1})]


def test_rows_before_a_broken_one_are_read_as_a_stream(tmp_path: Path) -> None:
    rows = open_rows(write(tmp_path, b'{"a": 1}\n{"a": '))
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(InvalidDataset, match=r"^Line 2: is not JSON: "):
        next(rows)


def test_the_items_of_a_json_array_have_lines(tmp_path: Path) -> None:
    path = write(tmp_path, b'\n[\n {"a":\n 1},\n\n {"a": 2}]\n')
    assert list(open_rows(path, "application/json")) == [(3, {"a": 1}), (6, {"a": 2})]


def test_the_first_line_of_csv_names_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path, b'a,b\n1,"x\ny"\n\n2,z\n')
    rows = list(open_rows(path, "text/csv; charset=utf-8"))
    assert rows == [(2, {"a": "1", "b": "x\ny"}), (5, {"a": "2", "b": "z"})]


def test_a_large_file_is_not_in_memory_as_objects(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [{"a": "x" * 1000}] * 2000)
    rows = open_rows(path)
    assert next(rows)[0] == 1
    assert sum(1 for _ in rows) == 1999


def test_an_unknown_media_type_is_refused_with_those_that_are_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataset, match=r"must be one of application/jsonl, .*, got 'text/html'"):
        list(open_rows(write(tmp_path, b"{}"), "text/html"))


def test_a_parquet_file_needs_pyarrow_and_is_read_with_it(tmp_path: Path) -> None:
    path, kind = tmp_path / "rows.parquet", "application/vnd.apache.parquet"
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError:
        path.write_bytes(b"PAR1")
        with pytest.raises(InvalidDataset, match="needs the package pyarrow: install it"):
            list(open_rows(path, kind))
    else:
        write_table(pyarrow.Table.from_pylist([{"a": "x"}, {"a": "y"}]), path)
        assert list(open_rows(path, kind)) == [(1, {"a": "x"}), (2, {"a": "y"})]


DEEP = "[" * 100_000
MANY_KEYS = json.dumps(dict.fromkeys(map(str, range(200_000))))
BROKEN = {
    "not UTF-8": (b'{}\n{"a": "\xff"}', "Line 2: is not UTF-8: its byte 8 is 0xff: save the file as UTF-8"),
    "half a character": (b'{"a": "\xc3', "Line 1: is not UTF-8"),
    "UTF-16 without a mark": ('{"a": 1}'.encode("utf-16-le"), "Line 1: is UTF-16: save the file as UTF-8"),
    "gzip": (gzip.compress(b"{}"), "Line 1: is gzip: decompress the file"),
    "zip": (b"PK\x03\x04\x14", "Line 1: is a zip archive: unpack it"),
    "Parquet": (b"PAR1\0", "Line 1: is Parquet: write the rows as JSONL"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "Line 1: is UTF-16: save the file as UTF-8"),
    "empty": (b"", "the dataset is empty"),
    "blank lines": (b"\n \r\n\t\n", "the dataset is empty"),
    "a mark alone": (b"\xef\xbb\xbf", "the dataset is empty"),
    "a list": (b"{}\n[1]", "Line 2: must be a JSON object: an array of rows has the media type"),
    "a text": (b'"a"', "Line 1: must be a JSON object, got 'a'"),
    "a number": (b"1", "Line 1: must be a JSON object, got 1"),
    "null": (b"null", "Line 1: must be a JSON object, got None"),
    "no JSON": (b"hello", "Line 1: is not JSON: Expecting value at character 1"),
    "no comma": (b'{"a": 1 "b": 2}', "Line 1: is not JSON: Expecting ',' delimiter at character 9"),
    "two objects": (b'{"a": 1}{"a": 2}', "Line 1: is not JSON: more text follows the value, at character 9"),
    "an object over two lines": (
        b'{"a":\n1}',
        "at character 7, where the line ends: write each row on one line",
    ),
    "a text without its end": (
        b'{"a": "x',
        "at character 7, where the line ends: write each row on one line",
    ),
    "single quotes": (b"{'a': 1}", "Line 1: is not JSON: Expecting property name"),
    "a control character": (b'{"a": "\x00"}', "Line 1: is not JSON: Invalid control character"),
    "NaN": (b'{"a": NaN}', "NaN is no JSON number: use null"),
    "Infinity": (b'{"a": [-Infinity]}', "-Infinity is no JSON number"),
    "a huge float": (b'{"a": 1e999}', "the number '1e999' is too large for 64 bits"),
    "a huge integer": (b'{"a": ' + b"9" * 100_000 + b"}", "is too large for 64 bits"),
    "a key twice": (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' is given twice: leave one out"),
    "a key twice inside": (b'{"m": [{"role": "a", "role": "b"}]}', "the key 'role' is given twice"),
    "many keys": (MANY_KEYS[:-1].encode() + b', "7": 1}', "the key '7' is given twice"),
    "a long key twice": (b'{"' + b"k" * 10**6 + b'": 1, "' + b"k" * 10**6 + b'": 1}', "is given twice"),
    "a deep list": (f'{{"a": {DEEP}'.encode(), "it is nested deeper than 100 levels"),
    "101 levels": (f'{{"a": {DEEP[:101]}{"]" * 101}}}'.encode(), "it is nested deeper than 100 levels"),
    "deep objects": (b'{"a":' * 50_000, "it is nested deeper than 100 levels"),
    "half a surrogate pair": (b'{"a": "\\ud83d"}', r"'\ud83d' is half of a surrogate pair"),
    "a long line": (b'{"a": "' + b"x" * 4_000_000 + b'"}', "Line 1: is longer than 4.0 MB: divide the row"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.timeout(100)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    with pytest.raises(InvalidDataset) as refusal:
        list(open_rows(write(tmp_path, content)))
    assert message in refusal.value.message
    assert len(refusal.value.message) < 300
    assert refusal.value.status == 400


BROKEN_ARRAYS = {
    "an object": (b'{"a": 1}', "Line 1: must begin a JSON array of objects with ["),
    "no end": (b'[{"a": 1},\n{"a": 2}', "Line 2: is not JSON: behind the row, the array must go on"),
    "a comma at the end": (b'[{"a": 1},\n]', "Line 2: is not JSON: Expecting value"),
    "more behind": (b'[{"a": 1}]\n[', "Line 1: is not JSON: behind the row"),
    "no object": (b'[{"a": 1},\n\n1]', "Line 3: must be a JSON object, got 1"),
    "no rows": (b"[ ]", "the dataset is empty"),
    "NaN": (b'[{"a": 1},\n{"a": NaN}]', "Line 2: is not JSON that can be trained on: NaN"),
    "depth": (b"[" * 100_000, "Line 1: is not JSON that can be trained on: it is nested deeper"),
    "not UTF-8": (b'[{"a": 1},\n{"a": "\xff"}]', "Line 2: is not UTF-8"),
    "empty": (b"", "Line 1: must begin a JSON array"),
    "a large one": (b"[" + b" " * 64_000_000, "a JSON array may have at most 64.0 MB: write JSONL"),
}


@pytest.mark.parametrize("name", BROKEN_ARRAYS)
@pytest.mark.timeout(100)
def test_a_broken_array_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN_ARRAYS[name]
    with pytest.raises(InvalidDataset) as refusal:
        list(open_rows(write(tmp_path, content), "application/json"))
    assert message in refusal.value.message


BROKEN_CSV = {
    "too few values": (b"a,b\n1\n", "Line 2: must have 2 values, as the first line has names (a, b), got 1"),
    "too many values": (b"a,b\n1,2\n1,2,3\n", "Line 3: must have 2 values"),
    "a name twice": (b"a,a\n1,2\n", "Line 1: must give every column a name of its own"),
    "no name": (b"a,\n1,2\n", "Line 1: must give every column a name of its own"),
    "only names": (b"a,b\n", "the dataset is empty"),
    "an open quote": (b'a,b\n1,"2\n', "Line 2: is not CSV: unexpected end of data"),
    "text behind a quote": (b'a,b\n1,"2"x\n', "Line 2: is not CSV: "),
    "not UTF-8": (b"a,b\n1,\xe9\n", "Line 2: is not UTF-8"),
    "a carriage return": (b"a,b\n1,2\r3,4\n", "Line 2: is not CSV: "),
}


@pytest.mark.parametrize("name", BROKEN_CSV)
def test_broken_csv_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN_CSV[name]
    with pytest.raises(InvalidDataset) as refusal:
        list(open_rows(write(tmp_path, content), "text/csv"))
    assert message in refusal.value.message


def test_a_file_that_is_gone_is_refused_without_its_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataset) as refusal:
        list(open_rows(tmp_path / "gone"))
    assert refusal.value.message == "the file cannot be read: No such file or directory"
