"""What is missing of a model, and how much of that is on the disk already. Asks nobody."""

from huggingface_hub.errors import EntryNotFoundError

from checks.cache import Storage
from checks.fetch.partial import written
from checks.finding import Refused
from checks.hub import Hub, refused
from checks.repository import File, Repository


def missing(source: Repository, hub: Hub) -> tuple[File, ...]:
    """The files to fetch: each content once, small ones first, so that what is wrong shows early.

    Raises Refused where the Hub tells of a file neither size nor hash: it has none of that name.
    """
    storage = Storage(hub.storage(source.name))
    wanted: dict[str, File] = {}
    for file in sorted(source.files, key=lambda file: (file.size, file.name)):
        if not file.etag:
            raise Refused(refused(EntryNotFoundError, file.name, hub, source.name, source.revision))
        if not storage.holds(source.commit, file.name, file.etag):
            wanted.setdefault(file.etag, file)
    return tuple(wanted.values())


def kept(source: Repository, storage: Storage) -> tuple[int, int]:
    """Bytes on the disk, and bytes in all, of what had to be fetched."""
    wanted = {file.etag: file for file in source.files if not file.here}.values()
    done = sum(
        file.size
        if storage.holds(source.commit, file.name, file.etag)
        else written(storage.blob(file.etag), file.size)
        for file in wanted
    )
    return done, sum(file.size for file in wanted)
