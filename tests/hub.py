"""A Hugging Face Hub on this machine: folders become repositories, and every request is remembered.

Answers what huggingface_hub asks when it looks at a model and fetches it, with the headers that it needs.
What goes wrong on the way is in hub_faults.py, what is found by name in hub_names.py.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from scripts.loopback import listening
from tests.hub_faults import Fault, Reply
from tests.hub_names import Names, described

HEAD = 100  # bytes of an answer's status, server and date
LARGE = 1000  # bytes from which a file counts as large, and is named by its sha256
TOKEN = "hf_good"
STRANGER = "hf_stranger"  # of an account that gated repositories have not let in


@dataclass
class Repo:
    """A folder as a repository. `gated`: only TOKEN opens it; `faults`: file name → what its GETs meet with;
    `elsewhere`: large files are kept by another host, to which the Hub sends whoever asks; `tags`: its
    versions besides main; `card`: what its model card says at the top; `values`: how many its GGUF file
    has; `told`: what is said of it in place of what is so."""

    folder: Path
    gated: bool = False
    faults: dict[str, Fault] = field(default_factory=dict)
    elsewhere: bool = False
    version: int = 1
    tags: tuple[str, ...] = ()
    card: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
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


class Request(NamedTuple):
    """'METHOD path' and the bytes of the answer's body; then what the client said."""

    what: str
    sent: int
    range: str
    token: str
    host: str
    connection: int


@dataclass
class Hub:
    """`repos` may change while it runs; `broken`: a status that all questions are answered with;
    `wire`: bytes of questions and answers, heads and bodies."""

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    broken: int = 0
    wire: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return sum(request.sent for request in self.requests)

    def got(self, file: str) -> list[Request]:
        """The GETs of a file that sent bytes of it."""
        return [request for request in self.requests if request.what.endswith(file) and request.sent]


@lru_cache(maxsize=64)
def hashes(path: Path, _changed_ns: int) -> tuple[int, str, str]:
    """Size, git's name for it, sha256."""
    data = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return len(data), blob, hashlib.sha256(data).hexdigest()


@contextmanager
def running() -> Iterator[Hub]:
    """A Hub on a free port of this machine."""
    hub = Hub()
    server = Server(("127.0.0.1", 0), type("Handler", (Answers,), {"hub": hub}))
    with listening(server) as hub.url:
        yield hub


class Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, address: Any) -> None:
        """A client that hangs up is what several tests are about."""


class Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.hub.broken:
            self.answer(self.hub.broken, {"error": "broken"})
        elif sent not in ("", TOKEN, STRANGER):
            said = "Invalid credentials in Authorization header"
            self.answer(401, {"error": said}, {"X-Error-Message": said})
        elif denial := self.hub.names.denial(path):
            self.answer(*denial)
        elif place := self.hub.names.moved_to(self.path):
            self.answer(307, b"", {"Location": place})
        elif found := self.hub.names.found(path, parse_qs(url.query), self.hub.repos):
            self.answer(200, *found)
        elif model := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/.*)?", path):
            self.about(model[1], model[2] or "", parse_qs(url.query))
        elif file := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.file(*file.groups())
        elif kept := re.fullmatch(r"/kept/([^/]+/[^/]+)/(.+)", path):
            self.bytes_of(self.hub.repos[kept[1]], kept[2], {})
        else:
            self.answer(404, {"error": "no such route"})

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def about(self, name: str, rest: str, query: dict[str, list[str]]) -> None:
        """/api/models/…: what there is, who may have it, which files."""
        repo = self.opened(name, revision_in(rest))
        if repo is None:
            return
        if rest == "/auth-check":
            self.refuse(403, "GatedRepo") if self.closed(repo) else self.answer(200, {})
        elif rest.startswith("/tree/"):
            tree = [{"type": "file", "path": file, **repo.entry(file)} for file in repo.names()]
            self.answer(200, tree)
        elif rest == "/refs":
            self.answer(200, self.hub.names.refs(repo.commit, repo.tags))
        else:
            self.answer(200, described(name, repo, bool(query.get("blobs"))))

    def file(self, name: str, revision: str, file: str) -> None:
        """/…/resolve/…: one file, or what HEAD tells about it."""
        repo = self.opened(name, revision)
        if repo is None:
            return
        if self.closed(repo):
            self.refuse(403, "GatedRepo")
        elif file not in repo.names():
            self.refuse(404, "EntryNotFound", commit=repo.commit)
        else:
            self.found(name, repo, file)

    def found(self, name: str, repo: Repo, file: str) -> None:
        headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{repo.etag(file)}"'}
        if repo.elsewhere and "lfs" in repo.entry(file):
            size = str(repo.entry(file)["size"])
            place = self.hub.url.replace("127.0.0.1", "localhost")
            linked = {"X-Linked-Size": size, "X-Linked-ETag": headers["ETag"]}
            self.answer(302, b"", headers | linked | {"Location": f"{place}/kept/{name}/{file}?signed"})
        else:
            self.bytes_of(repo, file, headers)

    def bytes_of(self, repo: Repo, file: str, headers: dict[str, str]) -> None:
        """All of it or the range asked for, or what the file's fault makes of it."""
        whole = (repo.folder / file).read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        span = (int(asked[1]), min(int(asked[2]) + 1, len(whole))) if asked else None
        reply = Reply(whole, span, headers)
        fault = repo.faults.get(file) if self.command == "GET" else None
        if fault is None or not fault.strikes():
            self.answer(reply.status, reply.body, reply.headers)
        else:
            fault.answer(self, reply)

    def opened(self, name: str, revision: str) -> Repo | None:
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
        self.answer(status, {"error": code}, {"X-Error-Code": code, "X-Repo-Commit": commit})

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
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
            Request(
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
    found = re.match(r"/(?:revision|tree)/([^/]+)", rest)
    return found[1] if found else "main"
