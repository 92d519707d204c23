"""What is missing of a model, and how much of that is on the disk already. Asks nobody."""

from dataclasses import replace

from huggingface_hub.errors import EntryNotFoundError

from checks.fetch.partial import written
from checks.finding import Refused
from checks.source.cache import Storage
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.refusals import refused, untrue
from checks.source.repository import Repository


def missing(source: Repository, hub: Hub) -> tuple[File, ...]:
    """The files to fetch: each content once, small ones first, so that what is wrong shows early.

    Raises Refused where the Hub has no such file, or tells of it what cannot be.
    """
    storage = Storage(hub.storage(source.name))
    wanted: dict[str, File] = {}
    for file in sorted(source.files, key=lambda file: (file.size, file.name)):
        if file.name not in source.names:
            raise Refused(refused(EntryNotFoundError, file.name, hub, source.name, source.revision))
        if not file.safe:
            raise Refused(untrue(file.name, file.etag, hub))
        if not storage.holds(source.commit, file.name, file.etag, file.size):
            wanted.setdefault(file.etag, file)
    return tuple(wanted.values())


def begun(source: Repository, hub: Hub) -> Repository:
    """The same with what earlier fetches have left of its files, which is not asked for again."""
    storage = Storage(hub.storage(source.name))
    files = (replace(file, kept=left_of(file, storage)) for file in source.files)
    return source if source.folder else replace(source, files=tuple(files))


def left_of(file: File, storage: Storage) -> int:
    return 0 if file.here or not file.safe else written(storage.blob(file.etag), file.size)


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
