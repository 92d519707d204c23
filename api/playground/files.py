"""The page's files, read once: by name, each with its type and a tag of its content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

PAGE = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    kind: str
    etag: str


def files(folder: Path = Path(__file__).parent) -> dict[str, File]:
    """Every file below `folder` of a kind that a page is made of, by its path from there."""
    found = (path for path in folder.rglob("*") if path.suffix in KINDS and path.is_file())
    return {path.relative_to(folder).as_posix(): _read(path) for path in found}


def _read(path: Path) -> File:
    content = path.read_bytes()
    return File(content, KINDS[path.suffix], hashlib.sha256(content).hexdigest()[:16])
