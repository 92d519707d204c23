"""What the Hub tells of a version of a model: its commit, its files, its licence.

A mirror, or what stands in the way to the Hub, may tell anything: it is looked at before it is believed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi, ModelCardData

from checks.finding import Refused
from checks.source.card import licence_of, licence_tagged
from checks.source.file import lies_within
from checks.source.hub import Hub
from checks.source.refusals import Unanswered, untrue
from inference.errors import named, short

COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's size, and the hash that names its bytes; empty where none is told."""

    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """name     what the model is called now
    gated    its authors ask who wants it
    licence  as they call it; empty where they do not
    values   how many its GGUF file has; 0 where that is not told
    """

    name: str
    commit: str
    gated: bool
    licence: str
    values: int
    files: Mapping[str, Entry]


def listing(hub: Hub, name: str, revision: str) -> Listing:
    """Ask. Raises what huggingface_hub does, Unanswered where no Hub would answer so, and Refused where a
    file would lie outside of its model."""
    try:
        api = HfApi(hub.endpoint, token=hub.key)
        told = read(api.model_info(name, revision=revision, files_metadata=True), name)
    except (AttributeError, KeyError, TypeError) as error:  # what a parser trips over
        raise Unanswered(f"{hub.endpoint} answers as no Hub does: {named(error)}") from error
    for file, entry in told.files.items():
        if not lies_within(file):
            raise Refused(untrue(file, entry.etag, hub))
    return told


def read(info: Any, name: str) -> Listing:
    """As huggingface_hub has it. Raises TypeError."""
    files = {str(sibling.rfilename): entry(sibling) for sibling in info.siblings or ()}
    if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):
        raise TypeError(f"a commit that is {short(info.sha)}")
    card = vars(info.card_data) if isinstance(info.card_data, ModelCardData) else {}
    return Listing(
        name=info.id if isinstance(info.id, str) else name,
        commit=info.sha,
        gated=bool(info.gated),
        licence=licence_of(card, files) or licence_tagged(info.tags or ()),
        values=counted(info.gguf),
        files=files,
    )


def entry(sibling: Any) -> Entry:
    etag = (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id) or ""
    if type(sibling.size) is not int or sibling.size < 0 or not isinstance(etag, str):
        raise TypeError(f"{short(sibling.rfilename)} with the size {short(sibling.size)}")
    return Entry(sibling.size, etag)


def counted(told: Any) -> int:
    """The values of all tensors, in what the Hub tells of a repository's GGUF files."""
    count = told.get("total") if isinstance(told, Mapping) else None
    return count if isinstance(count, int) else 0
