"""Fetch exactly the planned files, at the pinned commit, into the cache that all Hugging Face programs share.

What is there already is not fetched again, nor are bytes that an earlier run brought, however it ended. Plain
HTTP in parallel ranges: hf-xet is not used, as it cannot take up what it began.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from checks.fetch.blob import Blob
from checks.fetch.download import Download
from checks.fetch.line import Denied, Fault, address_of
from checks.fetch.lock import held
from checks.fetch.orphans import reclaim
from checks.fetch.pace import ORDINARY, Pace
from checks.fetch.partial import Partial
from checks.fetch.plan import kept, missing
from checks.fetch.progress import Progress
from checks.fetch.room import Room
from checks.finding import Finding, Refused, size
from checks.source.cache import Storage
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.refusals import refused
from checks.source.repository import Repository

log = logging.getLogger(__name__)

LOCK = "fetch.lock"
KINDS: dict[str | int, type[Exception]] = {
    "GatedRepo": GatedRepoError,
    "RepoNotFound": RepositoryNotFoundError,
    "RevisionNotFound": RevisionNotFoundError,
    "EntryNotFound": EntryNotFoundError,
    401: GatedRepoError,
    403: GatedRepoError,
    404: EntryNotFoundError,
}


def fetch(
    source: Repository,
    hub: Hub,
    progress: Progress | None = None,
    *,
    room: Room | None = None,
    pace: Pace = ORDINARY,
) -> Path:
    """The folder with the model's files. Raises Refused; what has come until then is kept."""
    if source.folder is not None:
        return source.folder
    storage, progress = Storage(hub.storage(source.name)), progress or Progress()
    folder = storage.snapshot(source.commit)
    with explained(source, hub, storage):
        if not all((folder / file.name).exists() for file in source.files):
            storage.begin(source.revision, source.commit, {file.name: file.size for file in source.files})
        if missing(source, hub):
            bring(source, hub, storage, progress, room or Room(hub.cache), pace)
        for file in source.files:
            storage.link(source.commit, file.name, file.etag)
        storage.name(source.revision, source.commit)
    return folder


def bring(source: Repository, hub: Hub, storage: Storage, progress: Progress, room: Room, pace: Pace) -> None:
    """Fetch what is missing, once nobody else is at it."""

    def waiting() -> None:
        progress.show(f"another process fetches {source.name}:", *kept(source, storage))

    def publish(blob: Blob) -> None:
        blob.partial.publish()
        storage.link(source.commit, blob.file.name, blob.file.etag)

    with held(storage.locks / LOCK, waiting):
        progress.end()
        wanted = missing(source, hub)
        reclaim(storage, {file.etag for file in wanted}, pace.quiet_s)
        blobs = [blob_of(file, source, hub, storage, pace) for file in wanted]
        Download(source.name, blobs, publish, room, progress, pace).run(hub)


def blob_of(file: File, source: Repository, hub: Hub, storage: Storage, pace: Pace) -> Blob:
    address = address_of(hub.endpoint, source.name, source.commit, file.name)
    return Blob(file, Partial(storage.blob(file.etag), file.size, pace.piece), address)


@contextmanager
def explained(source: Repository, hub: Hub, storage: Storage) -> Iterator[None]:
    """Whatever ends the fetch becomes Refused: why, how much is kept, and what to do."""
    try:
        with ended_by_signals():
            yield
    except Denied as error:
        kind = KINDS.get(error.code) or KINDS.get(error.status, HfHubHTTPError)
        raise Refused(refused(kind, str(error), hub, source.name, source.revision)) from error
    except Refused as error:
        raise Refused(with_kept(error.finding, source, storage)) from error
    except (Fault, OSError) as error:
        raise Refused(interrupted(str(error), source, storage)) from error
    except KeyboardInterrupt as error:
        raise Refused(interrupted("stopped", source, storage)) from error


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends it at once, too, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupted(why: str, source: Repository, storage: Storage) -> Finding:
    done, total = kept(source, storage)
    return Finding("fetch", size(total), why, False, again(done))


def with_kept(finding: Finding, source: Repository, storage: Storage) -> Finding:
    done, _ = kept(source, storage)
    mend = f"{finding.mend}; then {again(done)}"
    return Finding(finding.name, finding.need, finding.have, finding.ok, mend)


def again(kept_bytes: int) -> str:
    return f"start again: {size(kept_bytes)} are kept" if kept_bytes else "start again"
