"""Malformed HTTP on every route: a response or a closed connection soon; other clients are not affected."""

import gzip
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.live.hostile import KINDS, PATHS, check_response, undisturbed
from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

SOON_S = 60
GOT = ("/", "/playground", "/playground/status", "/docs", "/openapi.json", "/metrics", "/health", "/info")
MORE_GOT = ("/v1/models", "/v1/models/m", "/v1/responses/x", "/load", "/ping", "/version")
GOOD = {kind.path: json.dumps(kind.good).encode() for kind in reversed(KINDS.values())}
COMPLETE = "/v1/completions"
BODY = GOOD[COMPLETE]
JSON, LAST = "Content-Type: application/json", "Connection: close"
SIZED = f"Content-Length: {len(BODY)}"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@pytest.fixture(autouse=True)
def neighbour(server: ServerProcess) -> Iterator[None]:
    with undisturbed(server):
        yield


def head(*headers: str, method: str = "POST", path: str = COMPLETE, version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *headers, "", ""]
    return "\r\n".join(lines).encode("latin1")


def exchange(server: ServerProcess, *chunks: bytes, pause_s: float = 0.0, half: bool = False) -> list[int]:
    """The statuses of all responses until the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SOON_S) as connection:
        data = b""
        try:
            for chunk in chunks:
                connection.sendall(chunk)
                time.sleep(pause_s)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while arrived := connection.recv(1 << 16):
                data += arrived
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert b"Traceback" not in data and b"site-packages" not in data, data[-500:]
    return [int(status) for status in STATUS.findall(data)]


@pytest.mark.parametrize("path", dict.fromkeys((*PATHS, *GOT, *MORE_GOT)))
def test_every_method_on_every_route_is_answered(server: ServerProcess, path: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "POST"):
        response = requests.request(method, server.url + path, timeout=SOON_S)
        assert response.status_code < 500, (method, path, response.text[:300])
        if response.status_code >= 400 and method != "HEAD":
            check_response(response)
        if response.status_code == 405:
            assert response.headers["Allow"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_every_way_to_send_a_body_is_supported(server: ServerProcess, path: str, version: str) -> None:
    body = GOOD[path]
    sized = f"Content-Length: {len(body)}"
    variants: list[tuple[tuple[str, ...], bytes]] = [
        ((sized,), body),
        ((sized, "Expect: 100-continue"), body),
    ]
    if version == "1.1":
        chunks = b"1;x=y\r\n%b\r\n%x\r\n%b\r\n0\r\nX: y\r\n\r\n" % (body[:1], len(body) - 1, body[1:])
        variants.append((("Transfer-Encoding: chunked",), chunks))
    for headers, sent in variants:
        statuses = exchange(server, head(*headers, JSON, LAST, path=path, version=version), sent)
        assert statuses in ([200], [100, 200]), (headers, statuses)


ZIPPED = gzip.compress(BODY)
# The bytes sent, and the status of the response; 0: the connection is closed without a response.
WRONG: dict[str, tuple[bytes, int]] = {
    "two lengths": (head(SIZED, "Content-Length: 3", LAST) + BODY, 400),
    "length and chunks": (head(SIZED, "Transfer-Encoding: chunked", LAST) + BODY, 400),
    "a negative length": (head("Content-Length: -1", LAST) + BODY, 400),
    "a signed length": (head("Content-Length: +5", LAST) + BODY, 400),
    "a huge length": (head("Content-Length: " + "9" * 30, LAST) + BODY, 400),
    "more than allowed": (head("Content-Length: 99999999999", LAST) + BODY, 413),
    "too short a length": (head("Content-Length: 5", LAST) + BODY, 400),
    "no length": (head(LAST) + BODY, 400),
    "a chunk of no size": (head("Transfer-Encoding: chunked", LAST) + b"zz\r\n" + BODY, 400),
    "zipped": (head(f"Content-Length: {len(ZIPPED)}", "Content-Encoding: gzip", LAST) + ZIPPED, 415),
    "zipped twice": (head(SIZED, "Content-Encoding: gzip, gzip", LAST) + BODY, 415),
    "another charset": (head(SIZED, JSON + "; charset=utf-16", LAST) + BODY, 200),
    "a form": (head(SIZED, "Content-Type: multipart/form-data", LAST) + BODY, 400),
    "no host": (f"POST {COMPLETE} HTTP/1.1\r\n{LAST}\r\n{SIZED}\r\n\r\n".encode() + BODY, 400),
    "two hosts": (head("Host: x", SIZED, LAST) + BODY, 400),
    "a public host": (head(SIZED, LAST).replace(b"Host: x", b"Host: evil.example") + BODY, 403),
    "a fragment": (head(SIZED, LAST, path=COMPLETE + "#a") + BODY, 400),
    "a later version": (head(SIZED, LAST, version="2.0") + BODY, 505),
    "an upgrade": (head(SIZED, "Upgrade: h2c", "Connection: close, Upgrade") + BODY, 200),
    "another site's page": (head(SIZED, LAST, "Origin: http://evil.example") + BODY, 403),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200, 400),
    "no method": (head(method="FOO") + BODY, 400),
    "a tunnel": (head(method="CONNECT") + BODY, 400),
    "a header of 70 kB": (head(SIZED, "X: " + "y" * 70_000, LAST) + BODY, 431),
    "a thousand headers": (head(SIZED, LAST, *(f"X-{n}: y" for n in range(1000))) + BODY, 200),
    "a header of bytes": (head(SIZED, "X: \x00\xff", LAST) + BODY, 400),
    "a folded header": (head(SIZED, "X: a\r\n b", LAST) + BODY, 400),
    "a header of latin letters": (
        head(SIZED, "Authorization: Bearer \xff", "X-Request-Id: é", LAST) + BODY,
        200,
    ),
    "a split request id": (head(SIZED, 'X-Request-Id: a"b;c\td', LAST) + BODY, 200),
    "a wrong trace": (head(SIZED, "traceparent: 00-zz-1-1", LAST) + BODY, 200),
    "a range": (head(SIZED, "Range: bytes=5-1", "If-Match: *", LAST) + BODY, 200),
    "a long path": (head(SIZED, LAST, path=COMPLETE + "/" + "y" * 60_000) + BODY, 404),
    "a nul in the path": (head(SIZED, LAST, path=COMPLETE + "%00") + BODY, 404),
    "half an escape": (head(SIZED, LAST, path=COMPLETE + "%") + BODY, 404),
    "no utf-8": (head(SIZED, LAST, path="/%ff%fe") + BODY, 404),
    "a control character": (head(SIZED, LAST, path=COMPLETE + "\x01") + BODY, 400),
    "two slashes": (head(SIZED, LAST, path="/" + COMPLETE) + BODY, 200),
    "a way up": (head(SIZED, LAST, path="/x/.." + COMPLETE) + BODY, 404),
    "another's address": (head(SIZED, LAST, path="http://127.0.0.1:1" + COMPLETE) + BODY, 400),
    "a long query": (head(SIZED, LAST, path=COMPLETE + "?" + "a=&" * 15_000) + BODY, 200),
}


@pytest.fixture(scope="module")
def statuses(server: ServerProcess) -> dict[str, list[int]]:
    """Those of WRONG, all sent at once: for many the server keeps the connection open for a second."""
    with undisturbed(server), ThreadPoolExecutor(len(WRONG)) as clients:
        exchanges = clients.map(lambda each: exchange(server, each[0]), WRONG.values())
        return dict(zip(WRONG, exchanges, strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_malformed_http_is_answered_or_disconnected(statuses: dict[str, list[int]], name: str) -> None:
    _, status = WRONG[name]
    assert statuses[name][-1:] == ([status] if status else [])


FILES = ("main.py", "config.py", ".env", "etc/passwd", "../../../../etc/passwd", "status.py", "__init__.py")


@pytest.mark.parametrize("root", ["/", "/docs/", "/playground/", "/playground/views/", "/v1/models/"])
def test_no_path_reaches_a_file_of_the_server(server: ServerProcess, root: str) -> None:
    for file in FILES:
        for prefix in ("", "../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "%5c..%5c", "//", "%2f", "%00"):
            for up in (prefix, prefix * 4):
                assert exchange(server, head(LAST, method="GET", path=root + up + file)) in ([404], [400])


def test_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    one = head(SIZED, JSON) + BODY
    assert exchange(server, one * 20 + head(SIZED, JSON, LAST) + BODY) == [200] * 21


def test_a_slow_sender_is_answered_and_a_silent_one_times_out(server: ServerProcess) -> None:
    data = head(SIZED, JSON, LAST) + BODY
    chunks = [data[at : at + 16] for at in range(0, len(data), 16)]
    assert exchange(server, *chunks, pause_s=0.05) == [200]
    silent = ([head(SIZED, JSON, LAST) + BODY[:5]], [head(SIZED, JSON, LAST)[:20]], [])
    with ThreadPoolExecutor(len(silent)) as clients:  # each waits until the server's limit
        statuses = list(clients.map(lambda sent: exchange(server, *sent), silent))
    assert statuses == [[408], [408], []]


@pytest.mark.parametrize("path", PATHS)
def test_a_half_closed_connection_ends(server: ServerProcess, path: str) -> None:
    body = GOOD[path]
    for sent in (len(body), len(body) // 2):
        sized = head(f"Content-Length: {len(body)}", JSON, path=path)
        assert exchange(server, sized + body[:sent], half=True) in ([], [200])


def test_duplicate_keys_are_refused(server: ServerProcess) -> None:
    for path, body in GOOD.items():
        twice = b"{" + body[1:-1] + b"," + body[1:]
        response = requests.post(server.url + path, data=twice, headers={"Content-Type": "application/json"})
        check_response(response)
        assert response.status_code in (400, 422) and "repeated" in response.text
