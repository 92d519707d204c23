"""The model as it lies somewhere: in a folder, in the download cache, or on the Hub.

Reads names, sizes and small JSON files only; not a byte of weights. Raises Refused where there is no way in.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, try_to_load_from_cache

from checks.cache import Storage
from checks.card import licence_in, licence_of
from checks.file import File
from checks.finding import Finding, Refused
from checks.glance import CONFIG, INDEX, glance
from checks.hub import Hub
from checks.refusals import Unanswered, nothing_found, reaching
from checks.tensors import Headers

COMMIT = re.compile("[0-9a-f]{40}")
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
SMALL = (".json", ".model", ".jinja", ".txt", ".tiktoken")
OTHER_FRAMEWORKS = ("pytorch_model", "tf_model", "flax_model", "consolidated")


@dataclass(frozen=True, slots=True)
class Repository:
    """A model's files: `files` are those that will be loaded, `names` all that there are.

    folder   where it lies; None while it is still on the Hub
    commit   the version on the Hub that everything after is pinned to; empty for a folder
    config   its config.json
    now      its name on the Hub, where that has changed
    licence  as its authors call it; empty where that is not known
    notes    the folder that has those of its small files which a verdict reads
    headers  what its files of weights hold; None where nobody has looked
    """

    name: str
    revision: str
    commit: str
    folder: Path | None
    files: tuple[File, ...]
    names: tuple[str, ...]
    config: Mapping[str, Any]
    now: str = ""
    licence: str = ""
    notes: Path | None = None
    headers: Headers | None = None

    @property
    def weights(self) -> int:
        """Bytes of the weights as they are stored."""
        return sum(file.size for file in self.files if file.name.endswith(".safetensors"))

    @property
    def to_fetch(self) -> int:
        return sum(file.size for file in self.files if not file.here)


def find(name: str, revision: str, *, home: Path, hub: Hub, offline: bool, code: bool) -> Repository:
    """Look in folders, on the Hub, in what was fetched before.

    home: where folders are looked for besides the current one; code: its Python files are needed, too.
    """
    for folder in (Path(name).expanduser(), home / name):
        if folder.is_dir():
            return in_folder(name, folder, code)
    if name.startswith((".", "/", "~", "models/")):
        raise Refused(nothing_found(name, f"no folder {name}"))
    if COMMIT.fullmatch(revision) and (found := complete(name, revision, hub, code)):
        return found
    if offline:
        return in_cache(name, revision, hub, code, "OFFLINE is set", "OFFLINE = False, to fetch it")
    try:
        return on_hub(name, revision, hub, code)
    except Unanswered as error:
        return in_cache(name, revision, hub, code, str(error), error.mend)


def in_folder(name: str, folder: Path, code: bool, commit: str = "", revision: str = "") -> Repository:
    config = folder / "config.json"
    if not config.is_file():
        raise Refused(nothing_found(name, f"no config.json in {folder}"))
    names = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
    index = parsed(folder / INDEX, name) if INDEX in names else None
    return Repository(
        name=name,
        revision=revision,
        commit=commit,
        folder=folder,
        files=tuple(
            File(wanted, (folder / wanted).stat().st_size if wanted in names else 0, wanted in names)
            for wanted in needed(names, index, code)
        ),
        names=names,
        config=parsed(config, name),
        licence=licence_in(folder, names),
        notes=folder,
    )


def in_cache(name: str, revision: str, hub: Hub, code: bool, why: str, mend: str) -> Repository:
    """What an earlier start fetched, for when the Hub is not asked or does not answer."""
    commit = Storage(hub.storage(name)).commit_of(revision)
    found = try_to_load_from_cache(name, "config.json", cache_dir=hub.cache, revision=commit)
    if not isinstance(found, str):
        raise Refused(Finding("access", name, f"{why}, and no copy of it in {hub.cache}", False, mend))
    folder = Path(found).parent
    source = in_folder(name, folder, code, commit=folder.name, revision=revision)
    here = {file.name for file in source.files}
    missing = [
        File(file, num_bytes, here=False)
        for file, num_bytes in Storage(hub.storage(name)).planned(source.commit).items()
        if file not in here
    ]
    return replace(source, files=(*source.files, *missing))


def complete(name: str, commit: str, hub: Hub, code: bool) -> Repository | None:
    """The version, where all that it is loaded from was fetched before: a commit never changes."""
    storage = Storage(hub.storage(name))
    planned = storage.planned(commit)
    if not planned or not all((storage.snapshot(commit) / file).is_file() for file in planned):
        return None
    source = in_folder(name, storage.snapshot(commit), code, commit=commit, revision=commit)
    without_code = "auto_map" in source.config and not any(file.endswith(".py") for file in planned)
    return None if code and without_code else source


def on_hub(name: str, revision: str, hub: Hub, code: bool) -> Repository:
    """Ask the Hub. Raises Refused, or Unanswered where it cannot be asked."""
    with reaching(hub, name, revision):
        info = HfApi(hub.endpoint, token=hub.key).model_info(name, revision=revision, files_metadata=True)
        commit, siblings = str(info.sha), {sibling.rfilename: sibling for sibling in info.siblings or ()}
        storage = Storage(hub.storage(name))
        told = {file: described(file, sibling, commit, storage) for file, sibling in siblings.items()}
        notes = glance(hub, name, commit, told, gated=bool(info.gated))
    if not (notes / CONFIG).is_file():
        raise Refused(nothing_found(name, "no config.json in it"))
    index = None
    if INDEX in siblings:
        index = parsed(notes / INDEX, name) if (notes / INDEX).is_file() else shards_named(siblings)
    files = tuple(
        described(file, siblings.get(file), commit, storage) for file in needed(siblings, index, code)
    )
    return Repository(
        name,
        revision,
        commit,
        None,
        files,
        tuple(siblings),
        parsed(notes / CONFIG, name),
        now="" if info.id == name else info.id,
        licence=licence_of(info.card_data.to_dict() if info.card_data else {}, siblings),
        notes=notes,
    )


def shards_named(names: Iterable[str]) -> dict[str, Any]:
    """What an index says, as far as the names tell it: for one that is too large to be read first."""
    return {"weight_map": {name: name for name in names if SHARD.fullmatch(name)}}


def needed(names: Iterable[str], index: Mapping[str, Any] | None, code: bool) -> list[str]:
    """The files that loading reads: the weights that the index names, else model.safetensors; small ones."""
    names = set(names)
    weights = set(index["weight_map"].values()) if index else names & {"model.safetensors"}
    small = {name for name in names if is_small(name) or (code and name.endswith(".py"))}
    return sorted(weights | small)


def is_small(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    wanted = file.endswith(SMALL) and not file.startswith(OTHER_FRAMEWORKS)
    return wanted and folder in ("", "additional_chat_templates")


def parsed(path: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(), object_hook=numbered)
    except ValueError as error:
        raise Refused(nothing_found(name, f"{path.name} is not JSON: {error}")) from error
    if not isinstance(value, dict):
        raise Refused(nothing_found(name, f"{path.name} is not a JSON object"))
    return value


def numbered(value: dict[str, Any]) -> Any:
    """What transformers writes of a number that JSON has none for: {"__float__": "Infinity"}."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value


def described(name: str, sibling: Any, commit: str, storage: Storage) -> File:
    """What the Hub tells of a file; of one that it does not have, nothing."""
    if sibling is None:
        return File(name, 0, here=False)
    etag = (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id) or ""
    size = int(sibling.size or 0)
    return File(name, size, storage.holds(commit, name, etag, size), etag)
