"""The identifiers and prose use the words of the field: retired words are counted, and the counts may only
fall.

Reads identifiers, docstrings and comments of the server, the scripts and the tests; imports none of them.

  python tests/test_vocabulary.py           how often each retired word occurs in each folder
  python tests/test_vocabulary.py --all     every place
  python tests/test_vocabulary.py api/tgi   every place below that path
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent


def table(text: str) -> frozenset[str]:
    return frozenset(text.split())


# 1. No word of an identifier: each is a private name for something that has an established one.
ANYWHERE = table(
    """told tells asked asks seat seats seated seating outlet errand errands spoilt mend mends crew ahead anew
    beside besides lone solo unfit heats anatomy witness pays glance patience ledger kith forgetful steady
    relieve calm guess truth truths wanted wants whoever nobody"""
)
# 2. Not the last word of an identifier: participles and verb forms are only allowed before a noun.
LAST_WORD = table(
    """found held kept made given taken left gone come comes coming seen said shown packed cut holds keeps
    makes gives takes been lent drawn chosen picked parted lined joined settled tried proved warped begun
    ended"""
)
# 3. Not a whole identifier: the word says nothing, or means something else in every file.
WHOLE_NAME = table(
    """answer answers way ways thing things whole part parts form forms piece pieces plan room reach area
    cells heads course race trial proof sources moves line"""
)
LINE_MAY_BE = ("function", "parameter", "name")  # a line of a text that is parsed

# An identifier with one of these first words is a claim or a sentence, and may end in any word of table 2.
CLAIMS = ("is", "was", "has", "are", "not", "test")

# In docstrings and comments: words that begin an inverted sentence, and phrases to avoid everywhere.
OPENINGS = re.compile(r"""(?:^|[.!?:]["')]* )(Of|Whoever|Whose|Nobody)\b""")
PHRASES = re.compile(r"\b(be it|be they|anew|besides|but for|the like|whatever it be)\b", re.IGNORECASE)
# A file without these has neither; most have none, and splitting a file into tokens takes most of the time.
HINTS = re.compile(r"\b(Of|Whoever|Whose|Nobody)\b|(?i:" + PHRASES.pattern.replace(" ", r"[\s#!]+") + ")")

# (path prefix, identifier in lower case): why the name is allowed.
SETTING_SOURCES = "where settings come from: config.py, .env, the environment, flags"
MEMORY_PLAN = "the memory plan: what serving a model, or training it, will take"
ALLOWED: dict[tuple[str, str], str] = {
    ("checks/", "plan"): MEMORY_PLAN,
    ("selftest/", "plan"): MEMORY_PLAN,
    ("startup/", "plan"): MEMORY_PLAN,
    ("tuning/", "plan"): MEMORY_PLAN,
    ("tests/tuning/", "plan"): MEMORY_PLAN,
    ("tests/checks/", "plan"): MEMORY_PLAN,
    ("tests/hub/", "plan"): MEMORY_PLAN,
    ("tests/selftest/", "plan"): MEMORY_PLAN,
    ("tests/test_plan_matches_engine.py", "plan"): MEMORY_PLAN,
    ("settings/", "sources"): SETTING_SOURCES,
    ("tests/settings/", "sources"): SETTING_SOURCES,
    ("tuning/", "early_stopping_patience"): "transformers and Keras call it so",
    ("tests/tuning/", "early_stopping_patience"): "transformers and Keras call it so",
    ("api/", "connection_made"): "asyncio.Protocol calls it so",
    **dict.fromkeys((("tuning/", "chosen"), ("tests/tuning/", "chosen")), "the column of preference data"),
    **dict.fromkeys((("tuning/", "line"), ("tests/tuning/", "line")), "where a row begins in its file"),
    **dict.fromkeys((("tuning/", "num_cut"), ("tests/tuning/", "num_cut")), "rows that max_length cuts"),
}

# Class names that may occur more than once, and why: implementations of one Protocol, for example.
SHARED_CLASSES: dict[str, str] = {}

# Group: its maximum number of places. To be lowered to 0, never raised.
CLASSES = "class names"
CEILINGS = {
    "server, anywhere": 0,
    "server, last word": 0,
    "server, whole name": 0,
    "server, prose": 0,
    "scripts, anywhere": 0,
    "scripts, last word": 0,
    "scripts, whole name": 0,
    "scripts, prose": 0,
    "tests, anywhere": 0,
    "tests, last word": 0,
    "tests, whole name": 0,
    "tests, prose": 0,
    "native, anywhere": 0,
    CLASSES: 0,
}

SERVER = ("api", "tuning", "inference", "checks", "hub", "settings", "selftest", "startup")
NATIVE = "inference/native/c"
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


class Place(NamedTuple):
    group: str
    word: str
    path: str
    lineno: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.name}"


def areas() -> dict[str, list[Path]]:
    """The Python files of each area."""
    top = {path for path in ROOT.glob("*.py") if path.name != "conftest.py"}
    server = top | {path for folder in SERVER for path in (ROOT / folder).rglob("*.py")}
    others = {name: set((ROOT / name).rglob("*.py")) for name in ("scripts", "tests")}
    return {name: sorted(paths) for name, paths in {"server": server, **others}.items()}


@cache
def places() -> tuple[Place, ...]:
    """Everything that is counted, of all groups."""
    files = areas()
    hits = [place for top, paths in files.items() for path in paths for place in of_file(top, path)]
    hits += [place for top, paths in files.items() for place in of_paths(top, paths)]
    native = sorted((ROOT / NATIVE).rglob("*.[ch]"))
    assert native, "the C sources have moved"
    hits += [place for path in native for place in of_native(path)] + list(of_paths("native", native))
    classes = Counter(place.name for place in hits if place.group == CLASSES)
    return tuple(sorted(place for place in hits if place.group != CLASSES or classes[place.name] > 1))


def of_file(top: str, path: Path) -> Iterator[Place]:
    text, where = path.read_text(), relative(path)
    nodes = list(ast.walk(ast.parse(text)))
    for kind, name, line in sorted(set(identifiers(nodes))):
        for rule, word in broken(where, kind, name):
            yield Place(f"{top}, {rule}", word, where, line, name)
        if kind == "class" and top != "tests" and name not in SHARED_CLASSES:
            yield Place(CLASSES, name, where, line, name)
    for line, prose in [*docstrings(nodes), *comments(text)] if HINTS.search(text) else ():
        for match in [*OPENINGS.finditer(prose), *PHRASES.finditer(prose)]:
            yield Place(f"{top}, prose", match[1].lower(), where, line, prose[match.start(1) :][:70])


def of_paths(top: str, paths: Iterable[Path]) -> Iterator[Place]:
    """The names of files and their folders."""
    folders = {folder for path in paths for folder in path.parents if ROOT in folder.parents}
    for path in sorted({*paths, *folders}):
        where = relative(path)
        for rule, word in broken(where, "file", path.stem):
            if top != "native" or (rule == "anywhere" and path.suffix):
                yield Place(f"{top}, {rule}", word, where, 1, path.name)


def of_native(path: Path) -> Iterator[Place]:
    """Words of table 1 in C: each identifier of a file once, outside of strings and comments."""
    code = NOT_CODE.sub(lambda text: "\n" * text[0].count("\n") or " ", path.read_text())
    first: dict[str, int] = {}
    for match in re.finditer(r"\b[A-Za-z_]\w*", code):
        first.setdefault(match[0], code.count("\n", 0, match.start()) + 1)
    for name, line in first.items():
        for word in [word for word in words(name) if word in ANYWHERE]:
            yield Place("native, anywhere", word, relative(path), line, name)


def broken(path: str, kind: str, name: str) -> Iterator[tuple[str, str]]:
    """The rules that an identifier breaks, each with the word."""
    rules = broken_anywhere(kind, name)
    if rules and any(name.lower() == allowed and path.startswith(below) for below, allowed in ALLOWED):
        return
    yield from rules


@cache
def broken_anywhere(kind: str, name: str) -> tuple[tuple[str, str], ...]:
    """As `broken`, where no name is allowed."""
    return tuple(rules_broken_by(kind, name))


def rules_broken_by(kind: str, name: str) -> Iterator[tuple[str, str]]:
    first, *rest = words(name) or [""]
    last = rest[-1] if rest else first
    yield from (("anywhere", word) for word in (first, *rest) if word in ANYWHERE)
    if last in LAST_WORD and first not in CLAIMS:
        yield "last word", last
    if not rest and first in WHOLE_NAME and not (first == "line" and kind in LINE_MAY_BE):
        yield "whole name", first


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def identifiers(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, int]]:
    """(kind, name, line) of everything that a module names."""
    fields = {
        id(target)
        for owner in nodes
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        for target in getattr(node, "targets", [getattr(node, "target", None)])
    }
    for node in nodes:
        match node:
            case ast.ClassDef(name=name):
                yield "class", name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield "function", name, node.lineno
            case ast.arg(arg=name):
                yield "parameter", name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()):
                yield "attribute" if id(node) in fields else "name", name, node.lineno
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield "attribute", name, node.lineno
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.alias(asname=str(name))
            ):
                yield "name", name, node.lineno


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The paragraphs of each, on one line."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                for paragraph in re.finditer(r"(?:.+(?:\n|$))+?(?=\s*\n|\s*$)", text):
                    line = node.lineno + text.count("\n", 0, paragraph.start())
                    yield line, " ".join(paragraph[0].split())


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines are one."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] > last + 1:
            yield first, " ".join(block)
            block = []
        last = token.start[0]
        first = first if block else last
        block.append(token.string.lstrip("#! "))
    if block:
        yield first, " ".join(block)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("group", CEILINGS)
def test_retired_words_only_become_fewer(group: str) -> None:
    hits = [place for place in places() if place.group == group]
    listed = "\n".join(map(str, hits[:20]))
    assert len(hits) <= CEILINGS[group], f"{group}: {len(hits)}, {CEILINGS[group]} at most\n{listed}"


def test_every_group_has_a_ceiling() -> None:
    assert {place.group for place in places()} <= set(CEILINGS)


def print_counts() -> None:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for place in places():
        folder = "/".join(Path(place.path).parent.parts[:2]) or "top level"
        counts[folder, place.group.split(", ")[-1]][place.word] += 1
    for (folder, rule), each in sorted(counts.items()):
        listed = ", ".join(f"{word} {count}" for word, count in each.most_common())
        print(f"{folder:24} {rule:12} {each.total():5}  {listed}")
    totals = Counter(place.group for place in places())
    print(*(f"{group:37} {totals[group]:5}  at most {most}" for group, most in CEILINGS.items()), sep="\n")


def print_places(below: str) -> None:
    for place in places():
        if place.path.startswith(below):
            print(f"{place}  [{place.group.split(', ')[-1]}: {place.word}]")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print_places("" if sys.argv[1] == "--all" else sys.argv[1])
    else:
        print_counts()
