"""Static files, read at startup and sent with headers that forbid loading anything from other sites."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flask import Response, request

from inference.errors import NotFound

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".md": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
CONTENT_SECURITY_POLICY = "; ".join(
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
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # may be cached; browsers revalidate by ETag each time
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    content_type: str
    etag: str


class StaticFiles:
    """The files below `folder` with a suffix in CONTENT_TYPES, by relative path.

    names  relative paths of the files to serve; None: all files below `folder`
    """

    def __init__(self, folder: Path, names: Iterable[str] | None = None) -> None:
        paths = folder.rglob("*") if names is None else (folder / name for name in names)
        self.files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in paths
            if path.suffix in CONTENT_TYPES and path.is_file()
        }

    def send_page(self, name: str) -> Response:
        """Send a page whose links are relative to a path without a trailing slash; redirect to that path."""
        if request.path.endswith("/"):
            return Response(status=302, headers={"Location": f"..{request.path.rstrip('/')}"})
        return self.send(name)

    def send(self, name: str) -> Response:
        """Send a file that was read at startup, or 304 if the client has it. Raises NotFound."""
        if name not in self.files:
            raise NotFound(f"this page has no file {name[:80]!r}")
        file = self.files[name]
        response = Response(file.content, headers=HEADERS, content_type=file.content_type)
        response.set_etag(file.etag)
        response.make_conditional(request)
        return response


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(content, CONTENT_TYPES[path.suffix], hashlib.sha256(content).hexdigest()[:16])
