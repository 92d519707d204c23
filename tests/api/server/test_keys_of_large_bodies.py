"""A request without a key is refused before its large body is read; a small body is read as ever."""

import json
from collections.abc import Callable

import pytest

from api.hooks.body_limits import UNUSED_BODY_BYTES
from tests.api.conftest import LiveServer, read_response
from tests.api.conftest import request as http_request
from tests.fakes.fake_backend import FakeBackend

Start = Callable[..., LiveServer]
LARGE = UNUSED_BODY_BYTES + 1
KEY = "Authorization: Bearer secret"


def head(path: str, *headers: str) -> bytes:
    """The head of a POST whose body never arrives."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


@pytest.mark.parametrize("path", ["/v1/files", "/v1/chat/completions", "/generate", "/nowhere"])
@pytest.mark.parametrize("size", [f"Content-Length: {LARGE}", "Transfer-Encoding: chunked"])
def test_a_large_body_without_a_key_is_not_read(live: Start, path: str, size: str) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    response = server.exchange(head(path, size))
    assert response.startswith(b"HTTP/1.1 401 ") and b"www-authenticate: Bearer" in response


def test_the_error_is_that_of_the_dialect(live: Start) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    body = server.exchange(head("/v1/files", f"Content-Length: {LARGE}")).partition(b"\r\n\r\n")[2]
    error = json.loads(body)["error"]
    assert (error["code"], error["type"]) == (401, "AuthenticationError")


@pytest.mark.parametrize("header", [KEY, KEY.lower(), "X-Api-Key: secret"])
def test_a_large_body_with_a_key_is_read(live: Start, header: str) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    data = json.dumps({"messages": [{"role": "user", "content": "x" * LARGE}]}).encode()
    response = server.exchange(http_request("POST", "/v1/chat/completions", data, header))
    assert response.startswith(b"HTTP/1.1 200 ")


def test_a_small_body_without_a_key_keeps_the_connection(live: Start) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(http_request("POST", "/v1/chat/completions", b"{}"))
            assert read_response(connection).startswith(b"HTTP/1.1 401 ")


def test_a_declared_length_over_the_limit_of_files_is_a_413(live: Start) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    response = server.exchange(head("/v1/files", KEY, "Content-Length: 10000000000"))
    assert response.startswith(b"HTTP/1.1 413 ")
