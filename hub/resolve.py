"""Finds a model in a folder, in the download cache or on the Hub.

Reads names, sizes, small JSON files and the headers of the weight files. Raises Refused if there is no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from huggingface_hub import constants

from hub.adapter import refuse_adapter
from hub.cache import ModelCache, is_complete_file
from hub.client import Hub
from hub.errors import HubUnavailable, explain_hub_errors, explain_no_such_model
from hub.licence import licence_in
from hub.listing import COMMIT_PATTERN, RepoEntry, fetch_listing
from hub.repository import RepoFile, Repository
from hub.small_files import CONFIG, INDEX, fetch_metadata, read_index, read_model_config
from hub.weight_files import SAFE_FILES, AllowedFiles, find_shard_names, select_files
from hub.weight_headers.safetensors import with_headers
from inference.finding import Finding, Refused
from inference.model.load.gguf.file.shards import GGUF
from inference.process.background import run_in_background
from settings.schema import Settings

PendingRepository = Callable[[], Repository]  # waits for the look-up and returns its result; raises Refused


def find_model(
    name: str,
    revision: str,
    *,
    home: Path,
    hub: Hub,
    offline: bool,
    allowed: AllowedFiles = SAFE_FILES,
    refresh: bool = False,
) -> Repository:
    """Look for a model in folders, then in the cache, then on the Hub. Raises Refused.

    home: base of relative paths in addition to the current folder. refresh: ask the Hub for a newer version
    even if the cache has a complete one. The config of a GGUF file is still empty.
    """
    for folder in (Path(name).expanduser(), home / name):
        if folder.is_dir():
            return from_folder(name, folder, allowed)
        if folder.is_file() and folder.suffix == GGUF:
            return from_folder(name, folder.parent, replace(allowed, gguf_file=folder.name))
    if name.startswith((".", "/", "~", "models/")):
        kind = "GGUF file" if name.endswith(GGUF) or Path(name).expanduser().is_file() else "folder"
        raise Refused(explain_no_such_model(name, f"no {kind} {name}"))
    may_use_cache = bool(COMMIT_PATTERN.fullmatch(revision)) or not refresh
    if may_use_cache and (cached := from_complete_cache(name, revision, hub, allowed)):
        return cached
    if offline:
        return from_cache(name, revision, hub, allowed, "OFFLINE is set", "OFFLINE = False, to fetch it")
    try:
        return from_hub(name, revision, hub, allowed)
    except HubUnavailable as error:
        return from_cache(name, revision, hub, allowed, str(error), error.fix)


def from_folder(
    name: str,
    folder: Path,
    allowed: AllowedFiles = SAFE_FILES,
    commit: str = "",
    revision: str = "",
) -> Repository:
    entries = sorted(folder.rglob("*"))
    refuse_special_files(folder, entries)
    paths = [path for path in entries if path.is_file()]
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    refuse_adapter(folder, name, sizes)
    shard_files = read_index(folder / INDEX, name) if INDEX in sizes else None
    files_to_load = select_files(sizes, shard_files, allowed)
    return Repository(
        name=name,
        revision=revision,
        commit=commit,
        folder=folder,
        files=tuple(RepoFile(file, sizes.get(file, 0), file in sizes) for file in files_to_load),
        names=tuple(sizes),
        config=read_model_config(folder, name, files_to_load),
        licence=licence_in(folder, tuple(sizes)),
        metadata_folder=folder,
    )


def refuse_special_files(folder: Path, entries: Sequence[Path]) -> None:
    """Raise Refused for a pipe, a socket or a device, or a link to one: reading it may never end."""
    for path in entries:
        if path.exists() and not (path.is_file() or path.is_dir()):
            have = f"{path.relative_to(folder)} is a pipe, a socket or a device"
            raise Refused(Finding("weights", "files", have, False, "remove it from the model's folder"))


def from_cache(name: str, revision: str, hub: Hub, allowed: AllowedFiles, why: str, fix: str) -> Repository:
    """The cached version of a model if the Hub is not asked or does not answer. Raises Refused with `why`."""
    commit = ModelCache(hub.model_folder(name)).commit_of(revision)
    folder = ModelCache(hub.model_folder(name)).snapshot(commit)
    if not (folder / CONFIG).is_file() and not any(folder.rglob(f"*{GGUF}")):
        raise Refused(Finding("access", name, f"{why}, and there is no copy in {hub.cache_dir}", False, fix))
    repository = from_folder(name, folder, allowed, commit=commit, revision=revision)
    files = {file.name: file for file in repository.files}
    for file, num_bytes in expected_files(ModelCache(hub.model_folder(name)), commit, allowed).items():
        if file not in files or files[file].size != num_bytes:
            files[file] = RepoFile(file, num_bytes, is_local=False)
    return replace(repository, files=tuple(files.values()))


def expected_files(cache: ModelCache, commit: str, allowed: AllowedFiles) -> dict[str, int]:
    """The files that a cached version is loaded from, with sizes, whether or not they are present.

    Empty if the cache has no record of them. Raises Refused.
    """
    if planned_files := cache.planned_files(commit):
        return planned_files
    sizes, index = cache.tree_files(commit), cache.snapshot(commit) / INDEX
    shard_files = None
    if INDEX in sizes:
        shard_files = read_index(index, cache.folder.name) if index.is_file() else find_shard_names(sizes)
    return {file: sizes.get(file, 0) for file in select_files(sizes, shard_files, allowed)} if sizes else {}


def from_complete_cache(name: str, revision: str, hub: Hub, allowed: AllowedFiles) -> Repository | None:
    """The revision as it was last fetched, if the cache has all its files; else None."""
    cache = ModelCache(hub.model_folder(name))
    commit = cache.commit_of(revision)
    planned_files = expected_files(cache, commit, allowed)
    folder = cache.snapshot(commit)
    if not planned_files or not all(
        is_complete_file(folder / file, num_bytes) for file, num_bytes in planned_files.items()
    ):
        return None
    repository = from_folder(name, folder, allowed, commit=commit, revision=revision)
    lacks_code = "auto_map" in repository.config and not any(file.endswith(".py") for file in planned_files)
    return None if allowed.trust_remote_code and lacks_code else repository


def from_hub(name: str, revision: str, hub: Hub, allowed: AllowedFiles) -> Repository:
    """Look up a version on the Hub. Raises Refused, or HubUnavailable if the Hub does not answer."""
    with explain_hub_errors(hub, name, revision):
        listing = fetch_listing(hub, name, revision)
        cache = ModelCache(hub.model_folder(name))
        files = {file: to_file(file, entry, listing.commit, cache) for file, entry in listing.files.items()}
        metadata_folder = fetch_metadata(hub, name, listing.commit, files, gated=listing.is_gated)
    refuse_adapter(metadata_folder, name, files)
    shard_files = None
    if INDEX in files:
        shard_files = (
            read_index(metadata_folder / INDEX, name)
            if (metadata_folder / INDEX).is_file()
            else find_shard_names(files)
        )
    files_to_load = select_files({file: each.size for file, each in files.items()}, shard_files, allowed)
    return Repository(
        name=name,
        revision=revision,
        commit=listing.commit,
        folder=None,
        files=tuple(to_file(file, listing.files.get(file), listing.commit, cache) for file in files_to_load),
        names=tuple(files),
        config=read_model_config(metadata_folder, name, files_to_load),
        current_name="" if listing.name == name else listing.name,
        licence=listing.licence,
        num_elements=listing.num_elements,
        metadata_folder=metadata_folder,
    )


def to_file(name: str, entry: RepoEntry | None, commit: str, cache: ModelCache) -> RepoFile:
    """The file in its current state. `entry` is None for a file that the Hub does not have."""
    if entry is None:
        return RepoFile(name, 0, is_local=False)
    return RepoFile(name, entry.size, cache.has_file(commit, name, entry.etag, entry.size), entry.etag)


def resolve_model(settings: Settings, home: Path, *, refresh: bool = False) -> Repository:
    """Find the model of the settings and read its safetensors headers. Raises Refused.

    refresh: look for the newest version even if the cache has a complete one.
    """
    hub = make_hub(settings)
    repository = find_model(
        settings.model_name,
        settings.model_revision,
        home=home,
        hub=hub,
        offline=settings.offline,
        allowed=AllowedFiles(settings.allow_pickle, settings.gguf_file, settings.trust_remote_code),
        refresh=refresh,
    )
    return with_headers(repository, hub)


def resolve_in_background(settings: Settings, home: Path, *, refresh: bool = False) -> PendingRepository:
    """Start resolve_model on a daemon thread, which does not delay the end of the process."""
    return run_in_background(partial(resolve_model, settings, home, refresh=refresh), "resolve")


def make_hub(settings: Settings) -> Hub:
    cache_dir = Path(settings.cache_dir or constants.HF_HUB_CACHE).expanduser()
    return Hub(constants.ENDPOINT, cache_dir, settings.huggingface_access_token)
