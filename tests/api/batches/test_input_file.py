"""What is wrong in an input file: each line is named with its error, and no request runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.batches import input_file
from api.batches.input_file import InputRules, InputSummary, read_requests, summarize_input
from tests.api.batches.batch_server import CHATS, BatchServer, as_line, request_line
from tests.fakes.fake_backend import FakeBackend, make_models

MAX_BODY_BYTES = 1000


def summarize(path: Path, content: bytes) -> InputSummary:
    path.write_bytes(content)
    return summarize_input(path, InputRules(CHATS, MAX_BODY_BYTES, make_models(FakeBackend()).resolve))


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in request_line("a").items() if key != name}


@pytest.mark.parametrize(
    ("line", "code", "param", "words"),
    [
        (b'{"custom_id": ', "invalid_json_line", None, "not parseable"),
        (b"[1]", "invalid_json_line", None, "not parseable"),
        (b'{"custom_id": "\xff", "method": ""}', "invalid_request", "custom_id", "must be a string"),
        (b'{"a": ' + b"[" * 10_000, "invalid_json_line", None, "not parseable"),
        (without("custom_id"), "missing_required_parameter", "custom_id", "Missing"),
        (without("method"), "missing_required_parameter", "method", "Missing"),
        (without("url"), "missing_required_parameter", "url", "Missing"),
        (without("body"), "missing_required_parameter", "body", "Missing"),
        (request_line("a") | {"custom_id": 7}, "invalid_request", "custom_id", "must be a string"),
        (request_line("a") | {"custom_id": "x" * 513}, "invalid_request", "custom_id", "1 to 512 char"),
        (request_line("") | {"body": {}}, "invalid_request", "custom_id", "1 to 512 char"),
        (b'{"custom_id": "\\ud800", "method": "POST"}', "invalid_json_line", None, "not parseable"),
        (request_line("a") | {"method": "GET"}, "invalid_method", "method", "must be POST, got 'GET'"),
        (request_line("a", "/v1/embeddings"), "invalid_url", "url", f"must be {CHATS}"),
        (request_line("a", "/metrics"), "invalid_url", "url", f"must be {CHATS}"),
        (request_line("a") | {"body": [1]}, "invalid_request", "body", "must be a JSON object"),
        (request_line("a") | {"body": None}, "invalid_request", "body", "must be a JSON object"),
        (request_line("a", stream=True), "streaming_unsupported", "body.stream", "leave it out"),
        (request_line("a", background=True), "invalid_request", "body.background", "leave it out"),
        (request_line("a", model="gpt-9"), "model_not_found", "body.model", "'gpt-9' not found"),
        (request_line("a", prompt="x" * MAX_BODY_BYTES), "invalid_request", "body", "raise MAX_BODY_MB"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: Any, code: str, param: str | None, words: str) -> None:
    wrong = line + b"\n" if isinstance(line, bytes) else as_line(line)
    summary = summarize(tmp_path / "input", as_line(request_line("good")) + b"\n" + wrong)
    (error,) = summary.errors
    assert (error.code, error.param, error.line_number) == (code, param, 3)
    assert words in error.message and len(error.message) < 400


def test_ids_are_unique(tmp_path: Path) -> None:
    summary = summarize(tmp_path / "input", as_line(request_line("a")) * 2)
    assert [(error.code, error.line_number) for error in summary.errors] == [("duplicate_custom_id", 2)]


@pytest.mark.parametrize("content", [b"\n \n\n", b"\xef\xbb\xbf"])
def test_a_file_needs_a_request(tmp_path: Path, content: bytes) -> None:
    (error,) = summarize(tmp_path / "input", content).errors
    assert (error.code, error.param) == ("empty_file", "input_file_id")


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    (error,) = summarize(tmp_path / "input", b"x" * 10_000_000 + b"\n" + as_line(request_line("a"))).errors
    assert (error.code, error.line_number) == ("invalid_request", 1) and "MAX_BODY_MB" in error.message


@pytest.mark.parametrize("line", [b"\n", b"x\n", as_line(request_line("a"))])
def test_the_number_of_lines_and_errors_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(input_file, "MAX_REQUESTS", 200)
    errors = summarize(tmp_path / "input", line * 1000).errors
    assert 1 <= len(errors) <= input_file.MAX_ERRORS
    assert line != b"\n" or errors[0].code == "too_many_requests"


def test_a_body_is_passed_on_as_it_is(tmp_path: Path) -> None:
    body = b'{ "messages": [], "seed": 12345678901234567890, "seed": 1.50, "u": "\\u00e9" }'
    line = (
        b'{"custom_id": "\xc3\xa9", "method": "post", "url": "/v1/chat/completions", "body": ' + body + b"}"
    )
    path = tmp_path / "input"
    summary = summarize(path, b"\xef\xbb\xbf" + line + b"\r\n\n" + as_line(request_line("b")).rstrip())
    assert (summary.num_requests, summary.errors) == (2, ())
    first, second = read_requests(path)
    assert first == (1, "é", body) and (second.number, second.custom_id) == (3, "b")


def test_the_errors_of_a_file_are_those_of_the_batch(server: BatchServer, backend: FakeBackend) -> None:
    batch = server.run(request_line("a"), b"no JSON\n", request_line("a"))
    assert (batch["status"], batch["output_file_id"]) == ("failed", None) and batch["failed_at"]
    assert batch["errors"]["object"] == "list"
    assert [(error["code"], error["line"]) for error in batch["errors"]["data"]] == [
        ("invalid_json_line", 2),
        ("duplicate_custom_id", 3),
    ]
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert not backend.requests and list((server.folder / "batches").iterdir()) == []


def test_a_file_that_is_no_text_fails_its_batch(server: BatchServer) -> None:
    for content in (b"\x00" * 1000, bytes(range(256)) * 10, json.dumps([1] * 1000).encode()):
        assert server.run(content)["status"] == "failed"
