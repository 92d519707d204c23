"""The fake Hub's look-ups by name: search, other kinds of repositories, revisions, renamed models."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Names:
    """Names with a special meaning.

    moved     old name -> new name
    others    name -> "dataset" or "space"
    denied    name -> status and message, or bytes that replace the response
    searches  whether models can be searched for
    """

    moved: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    denied: dict[str, tuple[int, str | bytes]] = field(default_factory=dict)
    searches: bool = True

    def moved_to(self, path: str) -> str:
        """The path under the model's new name; empty if the model was not renamed."""
        for old, new in self.moved.items():
            if re.match(rf"(/api/models)?/{old}(/|\?|$)", path):
                return path.replace(old, new, 1)
        return ""

    def denial(self, path: str) -> tuple[int, Any, dict[str, str]] | None:
        """Status, body and headers of the refusal, for a path about a denied model."""
        status, message = self.denied.get(
            path.removeprefix("/api/models/").partition("/revision/")[0], (0, "")
        )
        if isinstance(message, bytes):
            return status, message, {}
        return (status, {"error": message}, {"X-Error-Message": message}) if status else None

    def listing(self, path: str, query: dict[str, list[str]], models: Iterable[str]) -> tuple[Any] | None:
        """The JSON for a path that is not about one model; None if there is none."""
        if path == "/api/whoami-v2":
            return ({"name": "somebody"},)
        if path == "/api/models" and self.searches:
            return ([{"id": name, "downloads": 1} for name in sorted(models) if matches(name, query)],)
        kind = re.fullmatch(r"/api/(dataset|space)s/(.+)", path)
        return ({"id": kind[2]},) if kind and self.others.get(kind[2]) == kind[1] else None

    def refs(self, commit: str, tags: Iterable[str]) -> dict[str, Any]:
        return {
            "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": commit}],
            "tags": [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": commit} for tag in tags],
            "converts": [],
        }


def matches(name: str, query: dict[str, list[str]]) -> bool:
    """As on the Hub: the search term is a part of the name, the author is the whole owner."""
    word, author = query.get("search", [""])[0], query.get("author", [""])[0]
    return word.lower() in name.lower() and author in ("", name.partition("/")[0])


def described(name: str, repo: Any, sizes: bool) -> dict[str, Any]:
    """The Hub's info about a repository; with `sizes`, including the sizes of its files."""
    siblings = []
    for file in repo.names():
        entry = repo.entry(file)
        known = {"size": entry["size"], "blobId": entry["oid"], "lfs": entry.get("lfs")} if sizes else {}
        siblings.append({"rfilename": file, **known})
    return {
        "id": name,
        "sha": repo.commit,
        "private": False,
        "gated": "manual" if repo.gated else False,
        "tags": [],
        "downloads": 0,
        "likes": 0,
        **({"cardData": repo.card} if repo.card else {}),
        **({"gguf": {"total": repo.values, "architecture": "llama"}} if repo.values else {}),
        "siblings": siblings,
        **repo.info_overrides,
    }
