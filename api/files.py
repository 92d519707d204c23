"""Pages made of files: read once, sent as they are, to a browser told to load nothing from elsewhere."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from flask import Response, request

from inference.errors import NotFound

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, and asked about each time: the ETag says whether it is still right
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    kind: str
    etag: str


class Files:
    """The files below `folder` of a kind that a page is made of, by their paths from there."""

    def __init__(self, folder: Path) -> None:
        found = (path for path in folder.rglob("*") if path.suffix in KINDS and path.is_file())
        self.files = {path.relative_to(folder).as_posix(): _read(path) for path in found}

    def send(self, name: str) -> Response:
        """Only what was found at the start can be had: a name is looked up, never a path. Raises NotFound."""
        if name not in self.files:
            raise NotFound(f"this page has no file {name[:80]!r}")
        file = self.files[name]
        response = Response(file.content, headers=HEADERS, content_type=file.kind)
        response.set_etag(file.etag)
        response.make_conditional(request)
        return response


def _read(path: Path) -> File:
    content = path.read_bytes()
    return File(content, KINDS[path.suffix], hashlib.sha256(content).hexdigest()[:16])
