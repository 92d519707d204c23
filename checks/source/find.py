"""Finding a model: in a folder, in the download cache, or on the Hub.

Reads names, sizes and small JSON files only; not a byte of weights. Raises Refused where there is no way in.
"""

from dataclasses import replace
from pathlib import Path

from checks.finding import Finding, Refused
from checks.source.cache import Storage, is_file
from checks.source.card import licence_in
from checks.source.file import File
from checks.source.forms import SAFE, Forms
from checks.source.glance import CONFIG, INDEX, glance
from checks.source.hub import Hub
from checks.source.listing import COMMIT, Entry, listing
from checks.source.needed import named_as_shards, needed
from checks.source.notes import config_in, in_index
from checks.source.refusals import Unanswered, nothing_found, reaching
from checks.source.repository import Repository
from inference.model.gguf.parts import GGUF


def find(
    name: str,
    revision: str,
    *,
    home: Path,
    hub: Hub,
    offline: bool,
    code: bool,
    forms: Forms = SAFE,
    anew: bool = False,
) -> Repository:
    """Look in folders, in what was fetched before, on the Hub.

    home: where folders are looked for besides the current one; code: its Python files are needed, too; anew:
    the Hub is asked for a newer version, although all of one is here. Of a GGUF file the config is not read
    yet.
    """
    for folder in (Path(name).expanduser(), home / name):
        if folder.is_dir():
            return in_folder(name, folder, code, forms)
        if folder.is_file() and folder.suffix == GGUF:
            return in_folder(name, folder.parent, code, Forms(gguf=folder.name))
    if name.startswith((".", "/", "~", "models/")):
        raise Refused(nothing_found(name, f"no folder {name}"))
    fixed = bool(COMMIT.fullmatch(revision)) or not anew
    if fixed and (found := complete(name, revision, hub, code, forms)):
        return found
    if offline:
        return in_cache(name, revision, hub, code, forms, "OFFLINE is set", "OFFLINE = False, to fetch it")
    try:
        return on_hub(name, revision, hub, code, forms)
    except Unanswered as error:
        return in_cache(name, revision, hub, code, forms, str(error), error.mend)


def in_folder(
    name: str, folder: Path, code: bool, forms: Forms = SAFE, commit: str = "", revision: str = ""
) -> Repository:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    shards = in_index(folder / INDEX, name) if INDEX in sizes else None
    wanted = needed(sizes, shards, code, forms)
    return Repository(
        name=name,
        revision=revision,
        commit=commit,
        folder=folder,
        files=tuple(File(file, sizes.get(file, 0), file in sizes) for file in wanted),
        names=tuple(sizes),
        config=config_in(folder, name, wanted),
        licence=licence_in(folder, tuple(sizes)),
        notes=folder,
    )


def in_cache(name: str, revision: str, hub: Hub, code: bool, forms: Forms, why: str, mend: str) -> Repository:
    """What an earlier start fetched, for when the Hub is not asked or does not answer."""
    commit = Storage(hub.storage(name)).commit_of(revision)
    folder = Storage(hub.storage(name)).snapshot(commit)
    if not (folder / CONFIG).is_file() and not any(folder.rglob(f"*{GGUF}")):
        raise Refused(Finding("access", name, f"{why}, and no copy of it in {hub.cache}", False, mend))
    source = in_folder(name, folder, code, forms, commit=commit, revision=revision)
    files = {file.name: file for file in source.files}
    for file, num_bytes in promised(Storage(hub.storage(name)), commit, code, forms).items():
        if file not in files or files[file].size != num_bytes:
            files[file] = File(file, num_bytes, here=False)
    return replace(source, files=tuple(files.values()))


def promised(storage: Storage, commit: str, code: bool, forms: Forms) -> dict[str, int]:
    """The files and sizes that a version in the cache is loaded from, be they there; empty where nobody has
    noted them. Raises Refused."""
    if planned := storage.planned(commit):
        return planned
    sizes, index = storage.tree(commit), storage.snapshot(commit) / INDEX
    shards = None
    if INDEX in sizes:
        shards = in_index(index, storage.folder.name) if index.is_file() else named_as_shards(sizes)
    return {file: sizes.get(file, 0) for file in needed(sizes, shards, code, forms)} if sizes else {}


def complete(name: str, revision: str, hub: Hub, code: bool, forms: Forms) -> Repository | None:
    """What the revision was when it was last fetched, where all that it is loaded from is here."""
    storage = Storage(hub.storage(name))
    commit = storage.commit_of(revision)
    planned = promised(storage, commit, code, forms)
    folder = storage.snapshot(commit)
    if not planned or not all(is_file(folder / file, num_bytes) for file, num_bytes in planned.items()):
        return None
    source = in_folder(name, folder, code, forms, commit=commit, revision=revision)
    without_code = "auto_map" in source.config and not any(file.endswith(".py") for file in planned)
    return None if code and without_code else source


def on_hub(name: str, revision: str, hub: Hub, code: bool, forms: Forms) -> Repository:
    """Ask the Hub. Raises Refused, or Unanswered where it cannot be asked."""
    with reaching(hub, name, revision):
        told = listing(hub, name, revision)
        storage = Storage(hub.storage(name))
        files = {file: described(file, entry, told.commit, storage) for file, entry in told.files.items()}
        notes = glance(hub, name, told.commit, files, gated=told.gated)
    shards = None
    if INDEX in files:
        shards = in_index(notes / INDEX, name) if (notes / INDEX).is_file() else named_as_shards(files)
    wanted = needed({file: each.size for file, each in files.items()}, shards, code, forms)
    return Repository(
        name,
        revision,
        told.commit,
        None,
        tuple(described(file, told.files.get(file), told.commit, storage) for file in wanted),
        tuple(files),
        config_in(notes, name, wanted),
        now="" if told.name == name else told.name,
        licence=told.licence,
        values=told.values,
        notes=notes,
    )


def described(name: str, told: Entry | None, commit: str, storage: Storage) -> File:
    """As it is now; None is told of a file that the Hub does not have."""
    if told is None:
        return File(name, 0, here=False)
    return File(name, told.size, storage.holds(commit, name, told.etag, told.size), told.etag)
