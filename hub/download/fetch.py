"""Fetches the planned files, at the pinned commit, into the cache that all Hugging Face programs share.

Files in the cache, and bytes that an interrupted fetch left, are not fetched again. Uses plain HTTP with
parallel ranges, not hf-xet, which cannot resume.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hub.cache import ModelCache
from hub.client import Hub
from hub.download.blob import Blob
from hub.download.disk_guard import DiskGuard
from hub.download.download import Download
from hub.download.http_range import RequestDenied, TransientError, address_of
from hub.download.lock import locked, remove_orphans
from hub.download.partial import PartialFile, count_written_bytes
from hub.download.progress import Progress
from hub.download.retry import DEFAULT_OPTIONS, DownloadOptions
from hub.errors import HubRefusal, explain_refusal, explain_untrusted_file
from hub.repository import RepoFile, Repository
from inference.finding import Finding, Refused, format_size

log = logging.getLogger(__name__)

LOCK_FILE = "fetch.lock"
ERROR_TYPES: dict[str | int, type[Exception]] = {
    "GatedRepo": GatedRepoError,
    "RepoNotFound": RepositoryNotFoundError,
    "RevisionNotFound": RevisionNotFoundError,
    "EntryNotFound": EntryNotFoundError,
    401: GatedRepoError,
    403: GatedRepoError,
    404: EntryNotFoundError,
}


def fetch(
    repository: Repository,
    hub: Hub,
    progress: Progress | None = None,
    *,
    disk_guard: DiskGuard | None = None,
    options: DownloadOptions = DEFAULT_OPTIONS,
) -> Path:
    """Fetch the missing files and return the model's folder. Raises Refused; received bytes are kept."""
    if repository.folder is not None:
        return repository.folder
    cache, progress = ModelCache(hub.model_folder(repository.name)), progress or Progress()
    folder = cache.snapshot(repository.commit)
    with explain_errors(repository, hub, cache):
        if not all((folder / file.name).exists() for file in repository.files):
            cache.write_plan(
                repository.revision, repository.commit, {file.name: file.size for file in repository.files}
            )
        if find_missing(repository, hub):
            fetch_missing(repository, hub, cache, progress, disk_guard or DiskGuard(hub.cache_dir), options)
        for file in repository.files:
            cache.link(repository.commit, file.name, file.etag)
        cache.write_ref(repository.revision, repository.commit)
    return folder


def fetch_missing(
    repository: Repository,
    hub: Hub,
    cache: ModelCache,
    progress: Progress,
    disk_guard: DiskGuard,
    options: DownloadOptions,
) -> None:
    """Fetch the missing files, after any other process that fetches the model has ended."""

    def report_waiting() -> None:
        progress.show(f"another process fetches {repository.name}:", *count_fetched_bytes(repository, cache))

    def publish(blob: Blob) -> None:
        blob.partial.publish()
        cache.link(repository.commit, blob.file.name, blob.file.etag)

    with locked(cache.locks / LOCK_FILE, report_waiting):
        progress.end()
        missing_files = find_missing(repository, hub)
        remove_orphans(cache, {file.etag for file in missing_files}, options.quiet_s)
        blobs = [make_blob(file, repository, hub, cache, options) for file in missing_files]
        Download(repository.name, blobs, publish, disk_guard, progress, options).run(hub)


def make_blob(
    file: RepoFile, repository: Repository, hub: Hub, cache: ModelCache, options: DownloadOptions
) -> Blob:
    address = address_of(hub.endpoint, repository.name, repository.commit, file.name)
    return Blob(file, PartialFile(cache.blob(file.etag), file.size, options.piece_bytes), address)


@contextmanager
def explain_errors(repository: Repository, hub: Hub, cache: ModelCache) -> Iterator[None]:
    """Convert every error of the fetch to Refused: the cause, the kept bytes, and the fix."""
    try:
        with interrupt_on_sigterm():
            yield
    except RequestDenied as error:
        error_type = ERROR_TYPES.get(error.code) or ERROR_TYPES.get(error.status, HfHubHTTPError)
        refusal = HubRefusal(hub, repository.name, repository.revision, str(error))
        raise Refused(explain_refusal(error_type, refusal)) from error
    except Refused as error:
        raise Refused(with_resume_hint(error.finding, repository, cache)) from error
    except (TransientError, OSError) as error:
        raise Refused(interrupted_finding(str(error), repository, cache)) from error
    except KeyboardInterrupt as error:
        raise Refused(interrupted_finding("stopped", repository, cache)) from error


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, as Ctrl-C does. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def interrupted_finding(why: str, repository: Repository, cache: ModelCache) -> Finding:
    done_bytes, total_bytes = count_fetched_bytes(repository, cache)
    return Finding("fetch", format_size(total_bytes), why, False, resume_hint(done_bytes))


def with_resume_hint(finding: Finding, repository: Repository, cache: ModelCache) -> Finding:
    done_bytes, _ = count_fetched_bytes(repository, cache)
    fix = f"{finding.fix}; then {resume_hint(done_bytes)}"
    return Finding(finding.name, finding.need, finding.have, finding.ok, fix)


def resume_hint(resumable_bytes: int) -> str:
    return f"start again: {format_size(resumable_bytes)} are kept" if resumable_bytes else "start again"


def find_missing(repository: Repository, hub: Hub) -> tuple[RepoFile, ...]:
    """The files to fetch: each content once, small files first, so that errors show early.

    Raises Refused if the Hub lacks a file, or lists it with an invalid hash or path.
    """
    cache = ModelCache(hub.model_folder(repository.name))
    missing_files: dict[str, RepoFile] = {}
    for file in sorted(repository.files, key=lambda file: (file.size, file.name)):
        if file.name not in repository.names:
            refusal = HubRefusal(hub, repository.name, repository.revision, file.name)
            raise Refused(explain_refusal(EntryNotFoundError, refusal))
        if not file.is_safe:
            raise Refused(explain_untrusted_file(file.name, file.etag, hub))
        if not cache.has_file(repository.commit, file.name, file.etag, file.size):
            missing_files.setdefault(file.etag, file)
    return tuple(missing_files.values())


def with_resumable_bytes(repository: Repository, hub: Hub) -> Repository:
    """The repository with the resumable bytes of each file filled in."""
    cache = ModelCache(hub.model_folder(repository.name))
    files = (replace(file, resumable_bytes=count_resumable_bytes(file, cache)) for file in repository.files)
    return repository if repository.folder else replace(repository, files=tuple(files))


def count_resumable_bytes(file: RepoFile, cache: ModelCache) -> int:
    return 0 if file.is_local or not file.is_safe else count_written_bytes(cache.blob(file.etag), file.size)


def count_fetched_bytes(repository: Repository, cache: ModelCache) -> tuple[int, int]:
    """Bytes on the disk and total bytes of the files that had to be fetched."""
    files = {file.etag: file for file in repository.files if not file.is_local}.values()
    done_bytes = sum(
        file.size
        if cache.has_file(repository.commit, file.name, file.etag, file.size)
        else count_written_bytes(cache.blob(file.etag), file.size)
        for file in files
    )
    return done_bytes, sum(file.size for file in files)
