"""The Hub's listing of a version of a model: its commit, files and licence.

The response is validated: a mirror or a proxy may send anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi, ModelCardData

from hub.client import Hub
from hub.errors import HubUnavailable, explain_untrusted_file
from hub.licence import licence_of, licence_tagged
from hub.repository import is_inside_folder
from inference.errors import named_error, short
from inference.finding import Refused

COMMIT_PATTERN = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class RepoEntry:
    """A file on the Hub: its size in bytes, and its hash; empty if the Hub has none."""

    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A version of a model on the Hub.

    name          current name of the model, which may have been renamed
    commit        hash of the version
    is_gated      whether the authors restrict access
    licence       as the authors name it; empty if they do not
    num_elements  elements of all tensors of the GGUF file; 0 if unknown
    files         by name
    """

    name: str
    commit: str
    is_gated: bool
    licence: str
    num_elements: int
    files: Mapping[str, RepoEntry]


def fetch_listing(hub: Hub, name: str, revision: str) -> Listing:
    """Request the listing of a version.

    Raises huggingface_hub's errors, HubUnavailable for an invalid response, and Refused for a file whose path
    is outside of the model's folder.
    """
    try:
        api = HfApi(hub.endpoint, token=hub.auth_token)
        listing = parse_listing(api.model_info(name, revision=revision, files_metadata=True), name)
    except (AttributeError, KeyError, TypeError) as error:  # an invalid response
        raise HubUnavailable(f"{hub.endpoint} sent an invalid response: {named_error(error)}") from error
    for file, entry in listing.files.items():
        if not is_inside_folder(file):
            raise Refused(explain_untrusted_file(file, entry.etag, hub))
    return listing


def parse_listing(info: Any, name: str) -> Listing:
    """Validate and convert huggingface_hub's ModelInfo. Raises TypeError."""
    files = {str(sibling.rfilename): parse_entry(sibling) for sibling in info.siblings or ()}
    if not isinstance(info.sha, str) or not COMMIT_PATTERN.fullmatch(info.sha):
        raise TypeError(f"a commit that is {short(info.sha)}")
    card = vars(info.card_data) if isinstance(info.card_data, ModelCardData) else {}
    gguf_elements = info.gguf.get("total") if isinstance(info.gguf, Mapping) else None  # of all tensors
    return Listing(
        name=info.id if isinstance(info.id, str) else name,
        commit=info.sha,
        is_gated=bool(info.gated),
        licence=licence_of(card, files) or licence_tagged(info.tags or ()),
        num_elements=gguf_elements if isinstance(gguf_elements, int) else 0,
        files=files,
    )


def parse_entry(sibling: Any) -> RepoEntry:
    etag = (sibling.lfs.sha256 if sibling.lfs else sibling.blob_id) or ""
    if type(sibling.size) is not int or sibling.size < 0 or not isinstance(etag, str):
        raise TypeError(f"{short(sibling.rfilename)} with the size {short(sibling.size)}")
    return RepoEntry(sibling.size, etag)
