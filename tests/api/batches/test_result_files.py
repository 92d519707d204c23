"""Result files after a kill or a full disk: whole lines count once, torn ones are cut off."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.batches.input_file import LineRequest
from api.batches.request_runner import LineAnswer
from api.batches.result_files import AppendedFile, ResultFiles
from api.batches.types import RequestCounts, TokenUsage

KEY = "0a1b"
BODY = json.dumps(
    {
        "object": "chat.completion",
        "usage": {
            "prompt_tokens": 3,
            "total_tokens": 5,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
    }
).encode()


def line_answer(number: int, status: int = 200, body: bytes = BODY) -> tuple[LineRequest, LineAnswer]:
    return LineRequest(number, f"request-{number}", b"{}"), LineAnswer(status, "id", body)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_results_are_read_again(tmp_path: Path) -> None:
    results = ResultFiles(tmp_path, KEY)
    results.add(*line_answer(1))
    results.add(*line_answer(3, 400, b'{"error": {}}'))
    results.add(*line_answer(2))
    results.add_expired(line_answer(4)[0])
    results.close()
    again = ResultFiles(tmp_path, KEY)
    for each in (results, again):
        assert each.answered == {1, 2, 3, 4} and each.has_expired
        assert each.counts(9) == RequestCounts(9, completed=2, failed=2)
        assert each.usage == TokenUsage(input=6, cached=2, output=4)
    assert [line["custom_id"] for line in lines(again.output_path)] == ["request-1", "request-2"]
    assert lines(again.error_path)[1] == {
        "id": f"batch_req_{KEY}_4",
        "custom_id": "request-4",
        "response": None,
        "error": {
            "code": "batch_expired",
            "message": "This request could not be executed before the completion window expired.",
        },
    }


@pytest.mark.parametrize("num_lost", [1, 2, 40])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, num_lost: int) -> None:
    results = ResultFiles(tmp_path, KEY)
    results.add(*line_answer(1))
    results.add(*line_answer(2))
    results.close()
    path = results.output_path
    path.write_bytes(path.read_bytes()[:-num_lost])
    again = ResultFiles(tmp_path, KEY)
    assert again.answered == {1} and again.usage == TokenUsage(input=3, cached=1, output=2)
    again.add(*line_answer(2))
    assert [line["custom_id"] for line in lines(path)] == ["request-1", "request-2"]


def test_what_a_power_cut_left_behind_a_line_is_cut_off(tmp_path: Path) -> None:
    results = ResultFiles(tmp_path, KEY)
    results.add(*line_answer(1))
    results.close()
    for junk in (b"\x00" * 5000, b"\x00\n" * 3, b'{"id": "x_1"}\n', b'{"id": "batch"}\nmore\n'):
        with results.output_path.open("ab") as file:
            file.write(junk)
        assert ResultFiles(tmp_path, KEY).answered == {1}
        assert len(lines(results.output_path)) == 1


@pytest.mark.parametrize(
    "usage", [b'{"usage": null}', b'{"usage": 7}', b"[]", b'{"usage": {"prompt_tokens": "many"}}', b'""']
)
def test_an_answer_may_have_any_usage(tmp_path: Path, usage: bytes) -> None:
    results = ResultFiles(tmp_path, KEY)
    results.add(*line_answer(1, body=usage))
    results.close()
    assert ResultFiles(tmp_path, KEY).answered == {1} and results.usage == TokenUsage()


def test_a_response_has_its_own_names_of_tokens(tmp_path: Path) -> None:
    details = {"input_tokens_details": {"cached_tokens": 1}, "output_tokens_details": {"reasoning_tokens": 2}}
    usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, **details}
    results = ResultFiles(tmp_path, KEY)
    results.add(*line_answer(1, body=json.dumps({"usage": usage}).encode()))
    assert results.usage == TokenUsage(input=5, cached=1, output=3, reasoning=2)


class FullDisk:
    """A raw file on a disk that takes so many more bytes."""

    def __init__(self, path: Path, num_free: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._num_free = num_free

    def write(self, data: memoryview) -> int:
        if not self._num_free:
            raise OSError(28, "No space left on device")
        num_written = self._file.write(data[: self._num_free]) or 0
        self._num_free -= num_written
        return num_written

    def truncate(self, size: int) -> int:
        return self._file.truncate(size)


def test_a_line_that_does_not_fit_the_disk_leaves_no_trace(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "lines")
    file.append(b"one\n")
    file._file = FullDisk(file.path, num_free=3)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        file.append(b"second\n")
    assert file.path.read_bytes() == b"one\n"
    file._file = FullDisk(file.path, num_free=100)  # type: ignore[assignment]
    file.append(b"second\n")
    assert file.path.read_bytes() == b"one\nsecond\n"
