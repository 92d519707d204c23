"""A Hugging Face Hub on this machine: folders are repositories, and every request is recorded.

It answers the requests by which huggingface_hub looks up and fetches a model, with the headers that it needs.
Faults are in fake_hub_faults.py, look-ups by name in fake_hub_names.py.
"""

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from weakref import WeakSet

from scripts.loopback import listening
from tests.fakes.fake_hub_faults import HubFault, HubReply
from tests.fakes.fake_hub_names import Names, described

HEAD = 100  # bytes counted for a response's status, server and date
LARGE = 1000  # bytes from which a file counts as large and is identified by its sha256
TOKEN = "hf_good"
STRANGER = "hf_stranger"  # token of an account with access to gated repositories


@dataclass
class Repo:
    """A folder as a repository.

    gated           only TOKEN opens it
    faults          file name -> the fault of its GETs
    on_other_host   large files are on another host, to which the Hub redirects
    tags            revisions other than main
    card            metadata of its model card
    values          number of values in its GGUF file
    info_overrides  fields of the listing that replace the true ones
    """

    folder: Path
    gated: bool = False
    faults: dict[str, HubFault] = field(default_factory=dict)
    on_other_host: bool = False
    version: int = 1
    tags: tuple[str, ...] = ()
    card: dict[str, Any] = field(default_factory=dict)
    info_overrides: dict[str, Any] = field(default_factory=dict)
    values: int = 0

    @property
    def commit(self) -> str:
        return hashlib.sha1(f"{self.folder} {self.version}".encode()).hexdigest()

    def names(self) -> list[str]:
        paths = self.folder.rglob("*")
        return sorted(path.relative_to(self.folder).as_posix() for path in paths if path.is_file())

    def entry(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        size, sha1, sha = hashes(path, path.stat().st_mtime_ns)
        entry: dict[str, Any] = {"oid": sha1, "size": size}
        if size >= LARGE:
            entry["lfs"] = {"oid": sha, "sha256": sha, "size": size, "pointerSize": 134}
        return entry

    def etag(self, name: str) -> str:
        entry = self.entry(name)
        return str(entry["lfs"]["oid"] if "lfs" in entry else entry["oid"])


class HubRequest(NamedTuple):
    """One request: "METHOD path", bytes of the response's body, then headers and port of the client."""

    what: str
    sent: int
    range: str
    token: str
    host: str
    connection: int


@dataclass
class FakeHub:
    """`repos` may change while it runs; the name of a dataset begins with datasets/.

    broken     if not 0, the status of every response
    wire       bytes of requests and responses, heads and bodies
    has_ended  it answers no longer
    """

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    broken: int = 0
    wire: int = 0
    requests: list[HubRequest] = field(default_factory=list)
    has_ended: bool = False

    @property
    def sent(self) -> int:
        return sum(request.sent for request in self.requests)

    def gets_of(self, file: str) -> list[HubRequest]:
        """The GETs of a file that sent bytes of it."""
        return [request for request in self.requests if request.what.endswith(file) and request.sent]


@lru_cache(maxsize=64)
def hashes(path: Path, _changed_ns: int) -> tuple[int, str, str]:
    """Size, git blob id, sha256."""
    data = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return len(data), blob, hashlib.sha256(data).hexdigest()


@contextmanager
def running() -> Iterator[FakeHub]:
    """A Hub on a free port of this machine."""
    hub = FakeHub()
    server = HubServer(("127.0.0.1", 0), type("Handler", (HubRequestHandler,), {"hub": hub}))
    with listening(server) as hub.url:
        yield hub
        hub.has_ended = True


class HubServer(ThreadingHTTPServer):
    """It closes all its connections at the end: clients keep them open, and each has a thread here."""

    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self.connections: WeakSet[socket.socket] = WeakSet()
        super().__init__(*arguments)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self.connections):
            with suppress(OSError):  # it is closed
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, address: Any) -> None:
        """Ignores clients that hang up: several tests do."""


class HubRequestHandler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.hub.broken:
            self.send(self.hub.broken, {"error": "broken"})
        elif sent not in ("", TOKEN, STRANGER):
            message = "Invalid credentials in Authorization header"
            self.send(401, {"error": message}, {"X-Error-Message": message})
        elif denial := self.hub.names.denial(path):
            self.send(*denial)
        elif place := self.hub.names.moved_to(self.path):
            self.send(307, b"", {"Location": place})
        elif listing := self.hub.names.listing(path, parse_qs(url.query), self.hub.repos):
            self.send(200, *listing)
        elif model := re.fullmatch(r"/api/(?:models/|(?=datasets/))((?:datasets/)?[^/]+/[^/]+)(/.*)?", path):
            self.send_info(model[1], model[2] or "", parse_qs(url.query))
        elif file := re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(*file.groups())
        elif stored := re.fullmatch(r"/kept/([^/]+/[^/]+)/(.+)", path):
            self.send_bytes(self.hub.repos[stored[1]], stored[2], {})
        else:
            self.send(404, {"error": "no such route"})

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def send_info(self, name: str, rest: str, query: dict[str, list[str]]) -> None:
        """/api/models/…: info about a model, its access check, its files."""
        repo = self.find_repo(name, revision_in(rest))
        if repo is None:
            return
        if rest == "/auth-check":
            self.refuse(403, "GatedRepo") if self.closed(repo) else self.send(200, {})
        elif rest.startswith("/tree/"):
            tree = [{"type": "file", "path": file, **repo.entry(file)} for file in repo.names()]
            self.send(200, tree)
        elif rest == "/refs":
            self.send(200, self.hub.names.refs(repo.commit, repo.tags))
        else:
            self.send(200, described(name, repo, bool(query.get("blobs"))))

    def send_file(self, name: str, revision: str, file: str) -> None:
        """/…/resolve/…: one file, or only its headers for HEAD."""
        repo = self.find_repo(name, revision)
        if repo is None:
            return
        if self.closed(repo):
            self.refuse(403, "GatedRepo")
        elif file not in repo.names():
            self.refuse(404, "EntryNotFound", commit=repo.commit)
        else:
            self.send_content(name, repo, file)

    def send_content(self, name: str, repo: Repo, file: str) -> None:
        headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{repo.etag(file)}"'}
        if repo.on_other_host and "lfs" in repo.entry(file):
            size = str(repo.entry(file)["size"])
            place = self.hub.url.replace("127.0.0.1", "localhost")
            linked = {"X-Linked-Size": size, "X-Linked-ETag": headers["ETag"]}
            self.send(302, b"", headers | linked | {"Location": f"{place}/kept/{name}/{file}?signed"})
        else:
            self.send_bytes(repo, file, headers)

    def send_bytes(self, repo: Repo, file: str, headers: dict[str, str]) -> None:
        """Sends the whole file or the requested range, or lets the file's fault respond."""
        content = (repo.folder / file).read_bytes()
        range_header = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        span = (int(range_header[1]), min(int(range_header[2]) + 1, len(content))) if range_header else None
        reply = HubReply(content, span, headers)
        fault = repo.faults.get(file) if self.command == "GET" else None
        if fault is None or not fault.strikes():
            self.send(reply.status, reply.body, reply.headers)
        else:
            fault.respond(self, reply)

    def find_repo(self, name: str, revision: str) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self.refuse(401, "RepoNotFound")
        elif revision not in ("main", repo.commit, *repo.tags):
            self.refuse(404, "RevisionNotFound")
        else:
            return repo
        return None

    def closed(self, repo: Repo) -> bool:
        return repo.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}"

    def refuse(self, status: int, code: str, commit: str = "") -> None:
        self.send(status, {"error": code}, {"X-Error-Code": code, "X-Repo-Commit": commit})

    def send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.head(status, {"Content-Length": str(len(data)), **(headers or {})})
        self.body(b"" if self.command == "HEAD" else data)

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.hub.wire += len(self.raw_requestline) + len(str(self.headers)) + len(str(headers)) + HEAD
        self.end_headers()

    def body(self, data: bytes) -> None:
        self.hub.requests.append(
            HubRequest(
                f"{self.command} {self.path}",
                len(data),
                self.headers.get("Range", ""),
                self.headers.get("Authorization", ""),
                self.headers.get("Host", ""),
                self.client_address[1],
            )
        )
        self.hub.wire += len(data)
        self.wfile.write(data)


def revision_in(rest: str) -> str:
    revision = re.match(r"/(?:revision|tree)/([^/]+)", rest)
    return revision[1] if revision else "main"
