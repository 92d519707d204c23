"""Removes packed weights from the cache that no start would use any more."""

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.native.weight_cache.file import BadWeightFile, read_about
from inference.native.weight_cache.source_files import SourceFile, cached_files

UNUSED_DAYS = 30
DAY_S = 86_400
TEMPORARY = ".*.packed.*"  # of a process that is writing, or that ended while it did
TEMPORARY_DAYS = 600 / DAY_S  # ten minutes: a process that is writing goes on sooner

log = logging.getLogger(__name__)


def prune(folder: Path, newest: Path, about: Mapping[str, Any]) -> None:
    """Remove the files that a new one replaces, whose model is gone or has changed, and unused ones.

    newest, about  the new file, and what it notes
    """
    for path in cached_files(folder):
        reason = "" if path == newest else why_remove(path, about)
        if reason:
            log.info("packed weights removed: %s: %s", path.name, reason)
            unlink(path)
    for path in folder.glob(TEMPORARY):
        if age_days(path) > TEMPORARY_DAYS:
            unlink(path)


def unlink(path: Path) -> None:
    """Remove a file, unless another process has, or it is another user's in a shared folder."""
    with contextlib.suppress(OSError):
        path.unlink()


def why_remove(path: Path, newest: Mapping[str, Any]) -> str:
    """Why no start would use a file; empty if one may."""
    try:
        about = read_about(path)
        source_files = [SourceFile(**source) for source in about["source_files"]]
        variant = about["variant"]
    except (OSError, BadWeightFile, KeyError, TypeError) as error:  # foreign, or of another version
        return f"it cannot be read: {error}"
    if not all(source.is_unchanged for source in source_files):
        return "its model is gone or has changed"
    if (about["source_files"], variant) == (newest["source_files"], newest["variant"]):
        return "another version of the libraries packed it"
    return f"not used for {UNUSED_DAYS} days" if age_days(path) > UNUSED_DAYS else ""


def age_days(path: Path) -> float:
    """Days since the file was written, or last used."""
    try:
        return (time.time() - path.stat().st_mtime) / DAY_S
    except FileNotFoundError:  # another process has removed it
        return 0.0


def mark_used(path: Path) -> None:
    """Restart the file's age."""
    os.utime(path)
