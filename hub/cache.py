"""A model's folder in the cache that all Hugging Face programs share: blobs/, snapshots/, refs/.

Knows the layout and how files are added; download/ fetches their bytes. Layout: huggingface_hub's guide
"Understand caching". Our addition is plans/: the files that each version is loaded from.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Any

from inference import untrusted_json


@dataclass(frozen=True, slots=True)
class ModelCache:
    """One model in the cache.

    `folder` is models--owner--name. An etag, which is a content hash, names a blob; a commit names a version.
    """

    folder: Path

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def locks(self) -> Path:
        """The folder where huggingface_hub keeps the locks of this model as well."""
        return self.folder.parent / ".locks" / self.folder.name

    def blob(self, etag: str) -> Path:
        return self.blobs / etag

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def has_file(self, commit: str, name: str, etag: str, size: int) -> bool:
        """Whether the cache has the file's content, perhaps from another version."""
        return self.find_file(commit, name, etag, size) is not None

    def find_file(self, commit: str, name: str, etag: str, size: int) -> Path | None:
        candidates = (self.snapshot(commit) / name, *([self.blob(etag)] if etag else []))
        return next((place for place in candidates if is_complete_file(place, size)), None)

    def link(self, commit: str, name: str, etag: str) -> None:
        """Add the blob to a version: as a symbolic link, or by moving it where links are impossible.

        huggingface_hub moves it too, because most disks have no room for a second copy of the weights.
        """
        file = self.snapshot(commit) / name
        if file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # a link to a blob that was removed
        blob = self.blob(etag)
        with suppress(OSError):
            file.symlink_to(os.path.relpath(blob, file.parent))
        if not file.exists():  # Wine says that it has made a link, and makes none
            shutil.move(blob, file)

    def commit_of(self, revision: str) -> str:
        """The commit of a revision when its fetch last ended or began; the revision itself if unknown."""
        ref_files = (self.folder / place / revision for place in ("refs", "plans/refs"))
        return next((note.read_text("utf-8").strip() for note in ref_files if note.is_file()), revision)

    def write_ref(self, revision: str, commit: str) -> None:
        """Record the commit of the revision, so that a start without the Hub finds it."""
        ref_file = self.folder / "refs" / revision
        if revision != commit and not (ref_file.is_file() and ref_file.read_text("utf-8").strip() == commit):
            write_atomically(ref_file, commit)

    def planned_files(self, commit: str) -> dict[str, int]:
        """The files that the version is loaded from, with sizes; empty if we never began to fetch it."""
        return {
            name: size
            for name, size in read_if_valid(self.plan_file(commit)).items()
            if isinstance(size, int)
        }

    def tree_files(self, commit: str) -> dict[str, int]:
        """All files of the version, with sizes, as huggingface_hub recorded them.

        Empty if it did not, or if the record is damaged.
        """
        files = read_if_valid(self.folder / "trees" / f"{commit}.json").get("files")
        if not isinstance(files, dict) or not all(map(has_size, files.values())):
            return {}
        return {name: entry.get("lfs_size") or entry["size"] for name, entry in files.items()}

    def write_plan(self, revision: str, commit: str, files: Mapping[str, int]) -> None:
        """Record the files that are about to be fetched. refs/ has only revisions that are complete."""
        write_atomically(
            self.plan_file(commit), json.dumps(self.planned_files(commit) | dict(files), indent=1)
        )
        write_atomically(self.folder / "plans" / "refs" / revision, commit)

    def plan_file(self, commit: str) -> Path:
        return self.folder / "plans" / f"{commit}.json"


def read_if_valid(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or invalid."""
    try:
        return untrusted_json.read_json_object(path)
    except (OSError, ValueError):
        return {}


def has_size(entry: Any) -> bool:
    """Whether huggingface_hub's record of a file has its size."""
    return isinstance(entry, dict) and isinstance(entry.get("lfs_size") or entry.get("size"), int)


def is_complete_file(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write the whole file or nothing. A later fetch removes the .partial file of a process that ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary_file = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.partial")
    temporary_file.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary_file.replace(path)
