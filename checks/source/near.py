"""What there is by a name near one that there is not: models, versions, other kinds of repositories.

Asks the Hub, only after it has refused, and never for long: what it does not answer is left out.
"""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from typing import Any

from checks.source.hub import Hub

SHOWN = 3  # models
LISTED = 12  # versions
FOUND = 100  # models that one search may bring: their names alone take 20 kB
ALIKE = 0.6  # of two names, from which one may be meant by the other
OTHERS = ("dataset", "space")


def models(hub: Hub, name: str) -> list[str]:
    """The models whose names are most like `name`, the most like first; of equals the more fetched."""
    owner, _, own = name.rpartition("/")
    searches = [{"search": own}, {"search": first_word(own)}, *([{"author": owner}] if owner else [])]

    def search(query: dict[str, str]) -> list[str]:
        _, found = hub.ask("/api/models", **query, sort="downloads", limit=FOUND, expand=["downloads"])
        return named(found, "id")

    with ThreadPoolExecutor(len(searches)) as threads:
        found = dict.fromkeys(model for models in threads.map(search, searches) for model in models)
    close = {model: closeness(name, model) for model in found if model != name}
    return sorted((model for model in close if close[model]), key=lambda model: -close[model])[:SHOWN]


def versions(hub: Hub, name: str, revision: str) -> list[str]:
    """Branches and tags, those most like `revision` first."""
    _, refs = hub.ask(f"/api/models/{name}/refs")
    told = refs if isinstance(refs, dict) else {}
    found = [*named(told.get("branches"), "name"), *named(told.get("tags"), "name")]
    return sorted(dict.fromkeys(found), key=lambda version: -alike(revision, version))


def other_kind(hub: Hub, name: str) -> str:
    """ "dataset" or "space" where there is one of that name; else empty."""
    if "/" not in name:
        return ""
    with ThreadPoolExecutor(len(OTHERS)) as threads:
        answers = threads.map(lambda kind: hub.ask(f"/api/{kind}s/{name}"), OTHERS)
        return next((kind for kind, (status, _) in zip(OTHERS, answers, strict=True) if status == 200), "")


def first_word(name: str) -> str:
    """With which whoever mistypes a version, a size or a suffix still has begun."""
    return re.split(r"[-_.]", name)[0]


def named(found: Any, key: str) -> list[str]:
    items: Iterable[Any] = found if isinstance(found, list) else ()
    return [str(item[key]) for item in items if isinstance(item, dict) and key in item]


def closeness(name: str, model: str) -> float:
    """Models' own names count most; 0 where they are not alike."""
    (owner, _, own), (its_owner, _, its_own) = name.rpartition("/"), model.rpartition("/")
    near = alike(own, its_own)
    return near + alike(owner, its_owner) / 2 if near >= ALIKE else 0.0


def alike(one: str, other: str) -> float:
    """0 to 1, small and capital letters the same."""
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()
