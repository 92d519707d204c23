"""A local Hub for a check, with a delay as in a request to the real Hub.

Knows the routes that a check requests. Like the real Hub, it redirects requests for weight files to another
host.
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
from scripts.preflight.latency.files import HubFile

COMMIT = "0123456789" * 4
HEAD_BYTES = 100  # of a response: status line, Server and Date headers
STORAGE_PATH = "/storage"


@dataclass
class LocalHub:
    """Serves one model.

    name          of its repository
    delay_s       before each response
    url           set by running_hub
    wire_bytes    of all requests and responses
    num_requests  answered so far
    """

    name: str
    files: Mapping[str, HubFile]
    delay_s: float
    url: str = ""
    wire_bytes: int = 0
    num_requests: int = 0

    def metadata(self) -> dict[str, Any]:
        siblings = [{"rfilename": name, **file.entry()} for name, file in self.files.items()]
        return {"id": self.name, "sha": COMMIT, "private": False, "gated": False, "siblings": siblings}


@contextmanager
def running_hub(name: str, files: Mapping[str, HubFile], delay_s: float) -> Iterator[LocalHub]:
    """Run the Hub on a free port of this machine within the block."""
    hub = LocalHub(name, files, delay_s)
    server = HubServer(("127.0.0.1", 0), type("Handler", (HubHandler,), {"hub": hub}))
    with listening(server) as hub.url:
        yield hub


class HubServer(ThreadingHTTPServer):
    request_queue_size = 64


class HubHandler(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        time.sleep(self.hub.delay_s)
        path = unquote(urlsplit(self.path).path)
        file = path.removeprefix(f"/{self.hub.name}/resolve/{COMMIT}/").removeprefix(f"{STORAGE_PATH}/")
        if path.startswith(f"/api/models/{self.hub.name}"):
            self.send(200, json.dumps(self.hub.metadata()).encode())
        elif file not in self.hub.files:
            self.send(404, b"{}")
        elif self.hub.files[file].is_small or path.startswith(STORAGE_PATH):
            self.send_range(self.hub.files[file])
        else:
            storage_url = self.hub.url.replace("127.0.0.1", "localhost")
            self.send(302, b"", {"Location": f"{storage_url}{STORAGE_PATH}/{file}?signed"})

    def send_range(self, file: HubFile) -> None:
        """Send the requested range, or 500 if it extends into the weights, which a check never requests."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(match[1]), int(match[2]) + 1) if match else (0, file.size)
        if stop > len(file.start):
            self.send(500, b"{}")
        elif match:
            headers = {"Content-Range": f"bytes {start}-{stop - 1}/{file.size}"}
            self.send(206, file.start[start:stop], headers)
        else:
            self.send(200, file.start)

    def send(self, status: int, body: bytes, extra_headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **extra_headers}.items():
            self.send_header(key, value)
        # Counted first: the client reads the counters once it has the body.
        self.hub.num_requests += 1
        self.hub.wire_bytes += len(self.raw_requestline) + len(str(self.headers)) + HEAD_BYTES + len(body)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return None
