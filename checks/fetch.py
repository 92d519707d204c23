"""Fetch exactly the planned files, at the pinned commit, into the cache that all Hugging Face programs share.

Knows huggingface_hub. What is there already is not fetched again; loading by folder asks the Hub nothing.
"""

import logging
from pathlib import Path

from huggingface_hub import snapshot_download

from checks.finding import Finding, Refused, size
from checks.hub import Hub, reaching
from checks.repository import Repository

log = logging.getLogger(__name__)


def fetch(source: Repository, hub: Hub) -> Path:
    """The folder with the model's files. Raises Refused when Hub, network or disk fail on the way."""
    if source.folder is not None:
        return source.folder
    if source.to_fetch:
        log.info("fetching model=%s commit=%s size=%s", source.name, source.commit[:7], size(source.to_fetch))
    try:
        with reaching(hub, source.name, source.revision):
            folder = snapshot_download(
                source.name,
                revision=source.commit,
                cache_dir=hub.cache,
                token=hub.key,
                endpoint=hub.endpoint,
                allow_patterns=[file.name for file in source.files],
            )
    except OSError as error:  # also ConnectionError
        raise Refused(interrupted(source, error)) from error
    remember(source, hub)
    return Path(folder)


def interrupted(source: Repository, error: OSError) -> Finding:
    mend = "start again: files that are complete are kept"
    return Finding("fetch", size(source.to_fetch), str(error).strip().splitlines()[-1], False, mend)


def remember(source: Repository, hub: Hub) -> None:
    """Note which commit the revision was, as huggingface_hub does, so that an offline start finds it."""
    note = hub.storage(source.name) / "refs" / source.revision
    if source.revision != source.commit:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(source.commit)
