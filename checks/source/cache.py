"""A model's folder in the cache that all Hugging Face programs share: blobs/, snapshots/, refs/.

Knows where things lie, and how they are put there; not what is missing, nor how bytes come. Layout:
huggingface_hub's guide "Understand caching". Ours besides: plans/, the files that a version is loaded from.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Any

from inference import foreign


@dataclass(frozen=True, slots=True)
class Storage:
    """`folder` is models--owner--name; an etag names a blob by its content, a commit a version."""

    folder: Path

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def locks(self) -> Path:
        """Where huggingface_hub, too, keeps the locks of this model."""
        return self.folder.parent / ".locks" / self.folder.name

    def blob(self, etag: str) -> Path:
        return self.blobs / etag

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def holds(self, commit: str, name: str, etag: str, size: int) -> bool:
        """Whether the bytes are here, be it from another version: blobs are named by content."""
        return self.find(commit, name, etag, size) is not None

    def find(self, commit: str, name: str, etag: str, size: int) -> Path | None:
        places = (self.snapshot(commit) / name, *([self.blob(etag)] if etag else []))
        return next((place for place in places if is_file(place, size)), None)

    def link(self, commit: str, name: str, etag: str) -> None:
        """Show the blob as a file of a version; where links are impossible it becomes that file.

        So does huggingface_hub, for a second copy of a model's weights is too much for most disks.
        """
        file = self.snapshot(commit) / name
        if file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # a link to a blob that somebody removed
        blob = self.blob(etag)
        try:
            file.symlink_to(os.path.relpath(blob, file.parent))
        except OSError:
            shutil.move(blob, file)

    def commit_of(self, revision: str) -> str:
        """What a revision was when it was last fetched, or begun; else itself."""
        notes = (self.folder / place / revision for place in ("refs", "plans/refs"))
        return next((note.read_text().strip() for note in notes if note.is_file()), revision)

    def name(self, revision: str, commit: str) -> None:
        """Note which commit the revision is, so that a start without the Hub finds it."""
        note = self.folder / "refs" / revision
        if revision != commit and not (note.is_file() and note.read_text().strip() == commit):
            write(note, commit)

    def planned(self, commit: str) -> dict[str, int]:
        """The files and sizes that the version is loaded from; empty where we never fetched it."""
        return {name: size for name, size in noted(self.plan(commit)).items() if isinstance(size, int)}

    def tree(self, commit: str) -> dict[str, int]:
        """All files and sizes of the version, as huggingface_hub notes them; empty where it never did."""
        files = noted(self.folder / "trees" / f"{commit}.json").get("files")
        told = files.items() if isinstance(files, dict) else ()
        return {name: entry.get("lfs_size") or entry["size"] for name, entry in told}

    def begin(self, revision: str, commit: str, files: Mapping[str, int]) -> None:
        """Note what is about to be fetched; refs/ tells only of what is complete."""
        write(self.plan(commit), json.dumps(self.planned(commit) | dict(files), indent=1))
        write(self.folder / "plans" / "refs" / revision, commit)

    def plan(self, commit: str) -> Path:
        return self.folder / "plans" / f"{commit}.json"


def noted(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        return foreign.object_in(path)
    except (OSError, ValueError):
        return {}


def is_file(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def write(path: Path, content: str | bytes) -> None:
    """Whole or not at all, whenever the process ends; the draft's name is one that the fetch clears away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.partial")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.replace(path)
