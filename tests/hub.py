"""A Hugging Face Hub on this machine: folders become repositories, and every request is remembered.

Answers what huggingface_hub asks when it looks at a model and fetches it, with the headers that it needs.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 1000  # bytes from which a file counts as large, and is named by its sha256
TOKEN = "hf_good"


@dataclass
class Repo:
    """A folder as a repository. `gated`: only TOKEN opens it; `failing`: file name → status of its GET."""

    folder: Path
    gated: bool = False
    failing: dict[str, int] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        return hashlib.sha1(str(self.folder).encode()).hexdigest()

    def names(self) -> list[str]:
        paths = self.folder.rglob("*")
        return sorted(path.relative_to(self.folder).as_posix() for path in paths if path.is_file())

    def entry(self, name: str) -> dict[str, Any]:
        data = (self.folder / name).read_bytes()
        entry: dict[str, Any] = {"oid": blob_of(data), "size": len(data)}
        if len(data) >= LARGE:
            sha = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": sha, "sha256": sha, "size": len(data), "pointerSize": 134}
        return entry


@dataclass
class Hub:
    """`repos` may change while it runs; `requests` are 'METHOD path' and the bytes sent."""

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[tuple[str, int]] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return sum(size for _, size in self.requests)


def blob_of(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def running() -> Iterator[Hub]:
    """A Hub on a free port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answers,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Answers(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        if model := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/.*)?", path):
            self.about(model[1], model[2] or "", parse_qs(url.query))
        elif file := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.file(*file.groups())
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
        elif self.command == "GET" and file in repo.failing:
            self.answer(repo.failing[file], {"error": "boom"})
        else:
            entry = repo.entry(file)
            etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
            headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{etag}"'}
            self.answer(200, (repo.folder / file).read_bytes(), headers)

    def opened(self, name: str, revision: str) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self.refuse(401, "RepoNotFound")
        elif revision not in ("main", repo.commit):
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
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        sends = self.command != "HEAD"
        self.hub.requests.append((f"{self.command} {self.path}", len(data) if sends else 0))
        if sends:
            self.wfile.write(data)


def revision_in(rest: str) -> str:
    found = re.match(r"/(?:revision|tree)/([^/]+)", rest)
    return found[1] if found else "main"


def described(name: str, repo: Repo, sizes: bool) -> dict[str, Any]:
    siblings = []
    for file in repo.names():
        entry = repo.entry(file)
        known = {"size": entry["size"], "blobId": entry["oid"], "lfs": entry.get("lfs")} if sizes else {}
        siblings.append({"rfilename": file, **known})
    return {
        "id": name,
        "sha": repo.commit,
        "private": False,
        "gated": "manual" if repo.gated else False,
        "tags": [],
        "downloads": 0,
        "likes": 0,
        "siblings": siblings,
    }
