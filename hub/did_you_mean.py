"""Suggestions for a name that the Hub does not know: similar models, versions, other kinds of repositories.

The requests are made only after a refusal, with a short timeout. Missing answers are left out.
"""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from typing import Any

from hub.client import Hub

MAX_MODELS = 3
MAX_VERSIONS = 12
SEARCH_LIMIT = 100  # models in the result of one search, about 20 kB
MIN_SIMILARITY = 0.6  # of two names, from 0 to 1
OTHER_KINDS = ("dataset", "space")


def find_similar_models(hub: Hub, name: str) -> list[str]:
    """The models with the names most similar to `name`, the most similar first; ties by downloads."""
    owner, _, own = name.rpartition("/")
    first_word = re.split(r"[-_.]", own)[0]  # is right even if the version, size or suffix is mistyped
    searches = [{"search": own}, {"search": first_word}, *([{"author": owner}] if owner else [])]

    def search(query: dict[str, str]) -> list[str]:
        _, results = hub.get_json(
            "/api/models", **query, sort="downloads", limit=SEARCH_LIMIT, expand=["downloads"]
        )
        return values_of(results, "id")

    with ThreadPoolExecutor(len(searches)) as threads:
        candidates = dict.fromkeys(model for models in threads.map(search, searches) for model in models)
    close = {model: name_similarity(name, model) for model in candidates if model != name}
    return sorted((model for model in close if close[model]), key=lambda model: -close[model])[:MAX_MODELS]


def list_versions(hub: Hub, name: str, revision: str) -> list[str]:
    """All branches and tags, those most similar to `revision` first."""
    _, refs = hub.get_json(f"/api/models/{name}/refs")
    refs_by_kind = refs if isinstance(refs, dict) else {}
    names = [*values_of(refs_by_kind.get("branches"), "name"), *values_of(refs_by_kind.get("tags"), "name")]
    return sorted(dict.fromkeys(names), key=lambda version: -text_similarity(revision, version))


def find_other_kind(hub: Hub, name: str) -> str:
    """Returns "dataset" or "space" if one has that name; else empty."""
    if "/" not in name:
        return ""
    with ThreadPoolExecutor(len(OTHER_KINDS)) as threads:
        responses = threads.map(lambda kind: hub.get_json(f"/api/{kind}s/{name}"), OTHER_KINDS)
        return next(
            (kind for kind, (status, _) in zip(OTHER_KINDS, responses, strict=True) if status == 200), ""
        )


def values_of(entries: Any, key: str) -> list[str]:
    items: Iterable[Any] = entries if isinstance(entries, list) else ()
    return [str(item[key]) for item in items if isinstance(item, dict) and key in item]


def name_similarity(name: str, model: str) -> float:
    """Similarity of two model names, at most 1.5. The owner counts half; 0 if the names themselves differ."""
    (owner, _, own), (its_owner, _, its_own) = name.rpartition("/"), model.rpartition("/")
    own_similarity = text_similarity(own, its_own)
    return own_similarity + text_similarity(owner, its_owner) / 2 if own_similarity >= MIN_SIMILARITY else 0.0


def text_similarity(one: str, other: str) -> float:
    """Similarity from 0 to 1, ignoring case."""
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()
