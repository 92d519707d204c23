"""Fetches an adapter from the Hub: its config and its weights, into the cache of all Hugging Face programs.

Knows the file names of peft. What the files hold is checked when the adapter is loaded.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hub.cache import ModelCache, is_complete_file
from hub.client import Hub
from hub.download.fetch import fetch
from hub.errors import HubUnavailable, explain_hub_errors
from hub.listing import Listing, fetch_listing
from hub.repository import RepoFile, Repository
from hub.small_files import fetch_metadata
from hub.weight_headers.safetensors import with_headers
from inference.finding import Finding, Refused, format_size
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_FILES
from settings.adapter_list import DEFAULT_REVISION

SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
HUB_SOURCE = re.compile(rf"(?!.*\.\.)({SEGMENT}/{SEGMENT})(?:@({SEGMENT}(?:/{SEGMENT})*))?")
MAX_CONFIG_BYTES, MAX_WEIGHT_BYTES = 1 << 20, 8_000_000_000


def split_source(source: str) -> tuple[str, str] | None:
    """Name and revision of owner/name or owner/name@revision; None for other texts."""
    match = HUB_SOURCE.fullmatch(source)
    return (match[1], match[2] or DEFAULT_REVISION) if match else None


def fetch_adapter(hub: Hub, name: str, revision: str, *, offline: bool) -> Path:
    """The folder of an adapter's config and weights in the cache; the Hub is asked if they are not complete.

    Raises Refused.
    """
    return fetch(look_up_adapter(hub, name, revision, offline=offline), hub)


def inspect_adapter(hub: Hub, name: str, revision: str, *, offline: bool) -> Repository:
    """The adapter with its config in metadata_folder, and the header of weights that the cache does not have.

    Raises Refused.
    """
    repository = look_up_adapter(hub, name, revision, offline=offline)
    if repository.folder is not None:
        return repository
    config = {file.name: file for file in repository.files if file.name == ADAPTER_CONFIG}
    with refuse_hub_errors(hub, name, revision):
        folder = fetch_metadata(hub, name, repository.commit, config, gated=False)
    return with_headers(replace(repository, metadata_folder=folder), hub)


def look_up_adapter(hub: Hub, name: str, revision: str, *, offline: bool) -> Repository:
    """The adapter and its two files; with a folder if the cache has both. Raises Refused."""
    cache = ModelCache(hub.model_folder(name))
    if folder := find_cached_adapter(cache, revision):
        files = tuple(RepoFile(file, (folder / file).stat().st_size, True) for file in ADAPTER_FILES)
        return Repository(
            name, revision, folder.name, folder, files, names=ADAPTER_FILES, config={}, metadata_folder=folder
        )
    if offline:
        have = "OFFLINE is set, and the cache has no copy"
        raise Refused(Finding("adapter", name, have, False, "OFFLINE = False, to fetch it"))
    with refuse_hub_errors(hub, name, revision):
        listing = fetch_listing(hub, name, revision)
    return plan_adapter(name, revision, listing, cache)


@contextmanager
def refuse_hub_errors(hub: Hub, name: str, revision: str) -> Iterator[None]:
    """Raise Refused for everything that the Hub may answer but the adapter."""
    try:
        with explain_hub_errors(hub, name, revision):
            yield
    except HubUnavailable as error:
        raise Refused(Finding("adapter", name, str(error), False, error.fix)) from error


def find_cached_adapter(cache: ModelCache, revision: str) -> Path | None:
    """The folder of the revision as it was last fetched, if both files are complete."""
    commit = cache.commit_of(revision)
    folder, sizes = cache.snapshot(commit), cache.planned_files(commit)
    is_complete = all(
        name in sizes and is_complete_file(folder / name, sizes[name]) for name in ADAPTER_FILES
    )
    return folder if is_complete else None


def plan_adapter(name: str, revision: str, listing: Listing, cache: ModelCache) -> Repository:
    """The repository with the two files to fetch. Raises Refused if one is missing or too large."""
    for file, limit in zip(ADAPTER_FILES, (MAX_CONFIG_BYTES, MAX_WEIGHT_BYTES), strict=True):
        if file not in listing.files:
            raise Refused(
                Finding("adapter", file, f"{name} has none", False, "choose a LoRA adapter of peft")
            )
        if (size := listing.files[file].size) > limit:
            need = f"{file} of at most {format_size(limit)}"
            raise Refused(Finding("adapter", need, format_size(size), False, "choose a smaller adapter"))
    entries = [(file, listing.files[file]) for file in ADAPTER_FILES]
    files = tuple(
        RepoFile(file, each.size, cache.has_file(listing.commit, file, each.etag, each.size), each.etag)
        for file, each in entries
    )
    return Repository(
        name, revision, listing.commit, folder=None, files=files, names=tuple(listing.files), config={}
    )
