"""Fetches the files of a dataset's split from the Hub, into the cache of all Hugging Face programs.

Knows the Hub's routes for datasets. Reads no rows.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData, HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from hub.cache import ModelCache, is_complete_file
from hub.client import DATASETS, Hub
from hub.dataset_files import DatasetSource, select_by_name, select_files
from hub.download.fetch import fetch
from hub.errors import SETTING, HubUnavailable, explain_hub_errors
from hub.listing import COMMIT_PATTERN, RepoEntry, parse_entry
from hub.repository import RepoFile, Repository
from inference.errors import named_error
from inference.finding import Finding, Refused, format_size


def fetch_dataset(hub: Hub, source: DatasetSource, *, max_bytes: int, offline: bool) -> list[Path]:
    """The files of the split in the cache. Without the Hub, those of an earlier fetch. Raises Refused."""
    cache = ModelCache(hub.model_folder(DATASETS + source.name))
    have, fix = "OFFLINE is set, and the cache has no copy", "OFFLINE = False, to fetch it"
    if not offline:
        try:
            return fetch_split(hub, source, max_bytes, cache)
        except HubUnavailable as error:
            have, fix = str(error), error.fix
    if paths := find_cached(cache, source):
        return paths
    raise Refused(Finding("dataset", source.name, have, False, fix))


def find_cached(cache: ModelCache, source: DatasetSource) -> list[Path]:
    """The files of the split by their names, if an earlier fetch planned them and all are complete."""
    commit = cache.commit_of(source.revision)
    sizes = cache.planned_files(commit)
    names = select_by_name(sizes, source.split)
    paths = [cache.snapshot(commit) / name for name in names]
    is_complete = all(is_complete_file(path, sizes[name]) for name, path in zip(names, paths, strict=True))
    return paths if is_complete else []


def fetch_split(hub: Hub, source: DatasetSource, max_bytes: int, cache: ModelCache) -> list[Path]:
    """Raises Refused, HubUnavailable."""
    name = DATASETS + source.name
    with explain_hub_errors(hub, name, source.revision):
        commit, entries, card = fetch_dataset_listing(hub, source)
    names = select_files(list(entries), card, source)
    num_bytes = sum(entries[file].size for file in names)
    if num_bytes > max_bytes:
        need, fix = f"at most {format_size(max_bytes)}", "choose a smaller split, or raise MAX_FILE_MB"
        raise Refused(Finding("dataset", need, format_size(num_bytes), False, fix))
    files = tuple(to_repo_file(file, entries[file], commit, cache) for file in names)
    repository = Repository(
        name, source.revision, commit, folder=None, files=files, names=tuple(entries), config={}
    )
    folder = fetch(repository, hub)
    return [folder / file for file in names]


def to_repo_file(name: str, entry: RepoEntry, commit: str, cache: ModelCache) -> RepoFile:
    return RepoFile(name, entry.size, cache.has_file(commit, name, entry.etag, entry.size), entry.etag)


def fetch_dataset_listing(
    hub: Hub, source: DatasetSource
) -> tuple[str, Mapping[str, RepoEntry], Mapping[str, Any]]:
    """(commit, files by name, the card's metadata). Raises Refused, HubUnavailable, the client's errors."""
    try:
        info = HfApi(hub.endpoint, token=hub.auth_token).dataset_info(
            source.name, revision=source.revision, files_metadata=True
        )
        entries = {str(sibling.rfilename): parse_entry(sibling) for sibling in info.siblings or ()}
        if not isinstance(info.sha, str) or not COMMIT_PATTERN.fullmatch(info.sha):
            raise TypeError("a listing without a commit")
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        have = "no such dataset, or a private one"
        fix = f"check its name; a private one needs the token of its owner in {SETTING}"
        raise Refused(Finding("dataset", source.name, have, False, fix)) from None
    except (AttributeError, KeyError, TypeError) as error:
        raise HubUnavailable(f"{hub.endpoint} sent an invalid response: {named_error(error)}") from error
    return info.sha, entries, vars(info.card_data) if isinstance(info.card_data, DatasetCardData) else {}
