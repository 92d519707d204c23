"""The model as it lies somewhere: in a folder, in the download cache, or on the Hub.

Reads names, sizes and small JSON files only; not a byte of weights. Raises Refused where there is no way in.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import RemoteEntryNotFoundError

from checks.finding import Finding, Refused
from checks.hub import Hub, nothing_found, reaching

INDEX = "model.safetensors.index.json"
SMALL = (".json", ".model", ".jinja", ".txt", ".tiktoken")
NO_NETWORK = "check the network; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror of the Hub"
OTHER_FRAMEWORKS = ("pytorch_model", "tf_model", "flax_model", "consolidated")


@dataclass(frozen=True, slots=True)
class File:
    """`here` says that its bytes are on this machine already."""

    name: str
    size: int
    here: bool


@dataclass(frozen=True, slots=True)
class Repository:
    """A model's files: `files` are those that will be loaded, `names` all that there are.

    folder   where it lies; None while it is still on the Hub
    commit   the version on the Hub that everything after is pinned to; empty for a folder
    config   its config.json
    """

    name: str
    revision: str
    commit: str
    folder: Path | None
    files: tuple[File, ...]
    names: tuple[str, ...]
    config: Mapping[str, Any]

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
    if offline:
        return in_cache(name, revision, hub, code, "OFFLINE is set", "OFFLINE = False, to fetch it")
    try:
        return on_hub(name, revision, hub, code)
    except ConnectionError as error:
        return in_cache(name, revision, hub, code, str(error), NO_NETWORK)


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
    )


def in_cache(name: str, revision: str, hub: Hub, code: bool, why: str, mend: str) -> Repository:
    """What an earlier start fetched, for when the Hub is not asked or does not answer."""
    found = try_to_load_from_cache(name, "config.json", cache_dir=hub.cache, revision=revision)
    if not isinstance(found, str):
        raise Refused(Finding("access", name, f"{why}, and no copy of it in {hub.cache}", False, mend))
    folder = Path(found).parent
    return in_folder(name, folder, code, commit=folder.name, revision=revision)


def on_hub(name: str, revision: str, hub: Hub, code: bool) -> Repository:
    """Ask the Hub. Raises Refused, or ConnectionError where it cannot be reached."""
    with reaching(hub, name, revision):
        api = HfApi(hub.endpoint, token=hub.key)
        info = api.model_info(name, revision=revision, files_metadata=True)
        if info.gated:
            api.auth_check(name)
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        index, config = (small_file(name, file, str(info.sha), hub) for file in (INDEX, "config.json"))
    if config is None:
        raise Refused(nothing_found(name, "no config.json in it"))
    blobs = hub.storage(name) / "blobs"
    files = tuple(
        File(file, size_of(siblings.get(file)), held(siblings.get(file), blobs))
        for file in needed(siblings, index, code)
    )
    return Repository(name, revision, str(info.sha), None, files, tuple(siblings), config)


def small_file(name: str, file: str, commit: str, hub: Hub) -> dict[str, Any] | None:
    """A JSON file of the model, kept in the cache; None where it has no such file."""
    try:
        path = hf_hub_download(
            name, file, revision=commit, cache_dir=hub.cache, token=hub.key, endpoint=hub.endpoint
        )
    except RemoteEntryNotFoundError:
        return None
    return parsed(Path(path), name)


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
        value = json.loads(path.read_text())
    except ValueError as error:
        raise Refused(nothing_found(name, f"{path.name} is not JSON: {error}")) from error
    if not isinstance(value, dict):
        raise Refused(nothing_found(name, f"{path.name} is not a JSON object"))
    return value


def size_of(sibling: Any) -> int:
    return int(sibling.size or 0) if sibling else 0


def held(sibling: Any, blobs: Path) -> bool:
    """Whether the cache has these bytes, be it from another version: blobs are named by content."""
    if sibling is None:
        return False
    return (blobs / (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id)).exists()
