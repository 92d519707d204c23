"""Selects the files of a dataset's split: as the dataset's card says, else by their names.

Knows the conventions of the library datasets. Fetches nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from inference.finding import Finding, Refused

# A split may exist in several formats: the first one is read.
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")
SPLIT_WORDS: Mapping[str, str] = {
    "train": "train|training",
    "validation": "validation|valid|val|dev",
    "test": "test|testing|eval|evaluation",
}
METADATA_FILES = frozenset(("dataset_infos.json", "dataset_dict.json", "state.json"))
MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """A split of a dataset on the Hub.

    name    owner/name
    subset  name of a configuration in the dataset's card; empty: the default one
    """

    name: str
    revision: str = "main"
    split: str = "train"
    subset: str = ""


def select_files(names: Sequence[str], card: Mapping[str, Any], source: DatasetSource) -> list[str]:
    """The names of the split's files, in order. Raises Refused if there are none."""
    config = find_config(card, source.subset)
    if config is None and source.subset:
        raise no_files(source, f"its card has no configuration {source.subset!r}", names)
    if config is None:
        selected_names = select_by_name(names, source.split)
    else:
        patterns = list(split_patterns(config.get("data_files"), source.split))
        selected_names = of_one_format(
            name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)
        )
    if not selected_names:
        raise no_files(source, f"it has no files of the split {source.split!r} that can be read", names)
    return selected_names


def select_by_name(names: Iterable[str], split: str) -> list[str]:
    """The files with the split's name in their paths. If no file names a split, all are for training."""
    data_names = [name for name in names if name.endswith(SUFFIXES) and name not in METADATA_FILES]
    selected_names = [name for name in data_names if names_split(name, split)]
    has_splits = any(names_split(name, each) for name in data_names for each in SPLIT_WORDS)
    return of_one_format(data_names if split == "train" and not has_splits else selected_names)


def names_split(name: str, split: str) -> bool:
    words = SPLIT_WORDS.get(split) or re.escape(split)
    return re.search(rf"(?<![a-zA-Z0-9])({words})(?![a-zA-Z0-9])", name) is not None


def of_one_format(names: Iterable[str]) -> list[str]:
    """The names in the first format of SUFFIXES that one of them has."""
    sorted_names = sorted(names)
    by_format = ([name for name in sorted_names if name.endswith(suffix)] for suffix in SUFFIXES)
    return next(filter(None, by_format), [])


def find_config(card: Mapping[str, Any], subset: str) -> Mapping[str, Any] | None:
    """The configuration of this name, or the default one; None if the card has none with files."""
    listed = card.get("configs")
    configs = [
        each
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and "data_files" in each
    ]
    if subset:
        return next((each for each in configs if each.get("config_name") == subset), None)
    return next((each for each in configs if is_default(each)), configs[0] if configs else None)


def is_default(config: Mapping[str, Any]) -> bool:
    return config.get("default") is True or config.get("config_name") == "default"


def split_patterns(data_files: Any, split: str) -> Iterator[str]:
    """The patterns of a split's files: data_files is a pattern, a list, or a list with splits and paths."""
    for entry in data_files if isinstance(data_files, list) else [data_files]:
        entry_split, path = (
            (entry.get("split", "train"), entry.get("path")) if isinstance(entry, dict) else ("train", entry)
        )
        if entry_split == split:
            yield from filter(lambda each: isinstance(each, str), path if isinstance(path, list) else [path])


def no_files(source: DatasetSource, have: str, names: Iterable[str]) -> Refused:
    visible_names = [name for name in sorted(names) if not name.startswith(".")]
    listed = ", ".join(visible_names[:MAX_LISTED]) or "none"
    fix = f"choose a split, or a dataset, with files of {', '.join(SUFFIXES)}; its files are {listed}"
    return Refused(Finding("dataset", source.name, have, False, fix))
