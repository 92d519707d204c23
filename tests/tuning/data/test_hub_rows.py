"""Addresses of datasets on the Hub, and the rows of their files."""

from pathlib import Path

import pytest

from hub.dataset_files import DatasetSource
from inference.errors import BadRequest
from tuning.data.examples import InvalidDataset
from tuning.data.hub_rows import file_rows, parse_address


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("huggingface://acme/rows", DatasetSource("acme/rows")),
        ("huggingface://datasets/acme/rows", DatasetSource("acme/rows")),
        ("huggingface://datasets/acme/rows?split=test", DatasetSource("acme/rows", split="test")),
        ("huggingface://acme/rows@v1?split=a", DatasetSource("acme/rows", "v1", "a")),
        (
            "huggingface://acme/rows?revision=refs/pr/1&subset=small",
            DatasetSource("acme/rows", "refs/pr/1", "train", "small"),
        ),
    ],
)
def test_an_address_names_a_split(address: str, source: DatasetSource) -> None:
    assert parse_address(address) == source


@pytest.mark.parametrize(
    "address",
    [
        "huggingface://",
        "huggingface://rows",
        "huggingface://datasets/rows",
        "huggingface://acme/rows/train.csv",
        "huggingface://../../etc/passwd",
        "huggingface://acme/..",
        "huggingface://acme/rows?split=../x",
        "huggingface://acme/rows?split=",
        "huggingface://acme/rows?token=x",
        "huggingface://acme/rows@?split=train",
        "huggingface://user:password@host/acme/rows",
        "huggingface://host:80/rows",
        "huggingface://acme/rows#x",
        "huggingface://acme/rows?split=a\n",
        "huggingface:///acme/rows",
        "huggingface://" + "a" * 10**6 + "/b",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(BadRequest, match=r"^source\.uri ") as refusal:
        parse_address(address)
    assert len(refusal.value.message) < 400


def test_rows_of_files_in_each_format_follow_each_other(tmp_path: Path) -> None:
    contents = {
        "1.jsonl": b'{"a": 1}\n{"a": 2}\n',
        "2.json": b' [{"a": 3}]',
        "3.json": b'{"a": 4}\n{"a": 5}',
        "4.csv": b"a\n6\n",
        "5.ndjson": b'{"a": 7}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    rows = file_rows([tmp_path / name for name in contents])
    assert [row["a"] for row in rows] == [1, 2, 3, 4, 5, "6", 7]


def test_a_broken_row_is_refused_with_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"a": 1}\n{')
    with pytest.raises(InvalidDataset, match=r"^train\.jsonl: Line 2: is not JSON"):
        list(file_rows([tmp_path / "train.jsonl"]))
