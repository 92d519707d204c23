"""What the fake Hub knows of names: what is like one, what else is called so, versions, new names for old."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Names:
    """moved: old name → new; others: a name → "dataset" or "space"; searches: models can be searched for;
    denied: name → a status, and what is said of it, or bytes that stand in the answer's place."""

    moved: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    denied: dict[str, tuple[int, str | bytes]] = field(default_factory=dict)
    searches: bool = True

    def moved_to(self, path: str) -> str:
        """Where a path leads to under the new name of its model; empty where it is the old one still."""
        for old, new in self.moved.items():
            if re.match(rf"(/api/models)?/{old}(/|\?|$)", path):
                return path.replace(old, new, 1)
        return ""

    def denial(self, path: str) -> tuple[int, Any, dict[str, str]] | None:
        """Status, body and headers, for what is about a model that is denied."""
        status, said = self.denied.get(path.removeprefix("/api/models/").partition("/revision/")[0], (0, ""))
        if isinstance(said, bytes):
            return status, said, {}
        return (status, {"error": said}, {"X-Error-Message": said}) if status else None

    def found(self, path: str, query: dict[str, list[str]], models: Iterable[str]) -> tuple[Any] | None:
        """The JSON for a path that is about no single model; None where there is none."""
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
    """As the Hub has it: what is searched for is part of the name, the author all of its owner."""
    word, author = query.get("search", [""])[0], query.get("author", [""])[0]
    return word.lower() in name.lower() and author in ("", name.partition("/")[0])


def described(name: str, repo: Any, sizes: bool) -> dict[str, Any]:
    """What the Hub tells of a repository, with the sizes of its files where they are asked for."""
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
        **repo.told,
    }
