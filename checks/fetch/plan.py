"""What is missing of a model, and how much of that is on the disk already. Asks nobody."""

import re
from pathlib import Path

from huggingface_hub.errors import EntryNotFoundError

from checks.cache import Storage
from checks.fetch.partial import written
from checks.finding import Finding, Refused
from checks.hub import Hub
from checks.refusals import refused
from checks.repository import File, Repository

HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # git's sha1, or sha256


def missing(source: Repository, hub: Hub) -> tuple[File, ...]:
    """The files to fetch: each content once, small ones first, so that what is wrong shows early.

    Raises Refused where the Hub has no such file, or tells of it what cannot be.
    """
    storage = Storage(hub.storage(source.name))
    wanted: dict[str, File] = {}
    for file in sorted(source.files, key=lambda file: (file.size, file.name)):
        if file.name not in source.names:
            raise Refused(refused(EntryNotFoundError, file.name, hub, source.name, source.revision))
        if not HASH.fullmatch(file.etag) or ".." in Path(file.name).parts or Path(file.name).is_absolute():
            raise Refused(untrue(file, hub))
        if not storage.holds(source.commit, file.name, file.etag, file.size):
            wanted.setdefault(file.etag, file)
    return tuple(wanted.values())


def untrue(file: File, hub: Hub) -> Finding:
    """Without a hash its bytes cannot be proved; and no file may lie outside of its model's folder."""
    have = f"the name {file.name!r} and the hash {file.etag!r}"
    return Finding(
        "fetch", "a file and its hash", have, False, f"{hub.endpoint} is no Hub to trust: HF_ENDPOINT"
    )


def kept(source: Repository, storage: Storage) -> tuple[int, int]:
    """Bytes on the disk, and bytes in all, of what had to be fetched."""
    wanted = {file.etag: file for file in source.files if not file.here}.values()
    done = sum(
        file.size
        if storage.holds(source.commit, file.name, file.etag, file.size)
        else written(storage.blob(file.etag), file.size)
        for file in wanted
    )
    return done, sum(file.size for file in wanted)
