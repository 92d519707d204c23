"""A Hub on this machine for a verdict, as far away as the real one: each of its answers takes a while.

Knows the routes that a verdict asks; files of weights lie with another host, to which it sends whoever asks.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from scripts.loopback import listening
from scripts.verdict.files import Stored

COMMIT = "0123456789" * 4
HEAD = 100  # bytes of an answer's status, server and date
ELSEWHERE = "/kept"


@dataclass
class Hub:
    """`files` of the one model that it has, `name`; `wire`: bytes of questions and answers."""

    name: str
    files: Mapping[str, Stored]
    delay_s: float
    url: str = ""
    wire: int = 0
    requests: int = 0

    def about(self) -> dict[str, Any]:
        siblings = [{"rfilename": name, **file.entry()} for name, file in self.files.items()]
        return {"id": self.name, "sha": COMMIT, "private": False, "gated": False, "siblings": siblings}


@contextmanager
def running(name: str, files: Mapping[str, Stored], delay_s: float) -> Iterator[Hub]:
    """On a free port of this machine."""
    hub = Hub(name, files, delay_s)
    server = Server(("127.0.0.1", 0), type("Handler", (Answers,), {"hub": hub}))
    with listening(server) as hub.url:
        yield hub


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        time.sleep(self.hub.delay_s)
        path = unquote(urlsplit(self.path).path)
        file = path.removeprefix(f"/{self.hub.name}/resolve/{COMMIT}/").removeprefix(f"{ELSEWHERE}/")
        if path.startswith(f"/api/models/{self.hub.name}"):
            self.answer(200, json.dumps(self.hub.about()).encode())
        elif file not in self.hub.files:
            self.answer(404, b"{}")
        elif self.hub.files[file].small or path.startswith(ELSEWHERE):
            self.part(self.hub.files[file])
        else:
            place = self.hub.url.replace("127.0.0.1", "localhost")
            self.answer(302, b"", {"Location": f"{place}{ELSEWHERE}/{file}?signed"})

    def part(self, file: Stored) -> None:
        """What is asked for, where it is there: no verdict asks for weights."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(asked[1]), int(asked[2]) + 1) if asked else (0, file.size)
        if stop > len(file.start):
            self.answer(500, b"{}")
        elif asked:
            told = {"Content-Range": f"bytes {start}-{stop - 1}/{file.size}"}
            self.answer(206, file.start[start:stop], told)
        else:
            self.answer(200, file.start)

    def answer(self, status: int, body: bytes, told: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **told}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)
        self.hub.requests += 1
        self.hub.wire += len(self.raw_requestline) + len(str(self.headers)) + HEAD + len(body)

    def log_message(self, format: str, *args: Any) -> None:
        return None
