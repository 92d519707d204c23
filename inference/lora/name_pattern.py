"""Matches module names with the patterns of rank_pattern and alpha_pattern, in time bounded by their lengths.

peft takes them as regular expressions. A stranger's expression may take exponential time in Python's engine:
here only what names need is supported, characters, `.`, `\\d`, `\\w`, escapes, `*`, `+`, `?`, `^` and `$`.
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

MAX_CHARS = 500
# Each module of a model is matched with all of them, on the thread that answers. An operator *, + or ? may
# leave a place in the pattern open for each character of the name, so the operators of all patterns count.
MAX_PATTERNS, MAX_PARSED, MAX_REPEATING = 2048, 1024, 32
OPERATORS = frozenset("[]{}^$|()*+?")
SPECIAL, REPEATING = re.compile(r"[][{}^$|()*+?\\]"), re.compile(r"[*+?]")
CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
}

# (may be left out, may be repeated)
REPEATS = {"*": (True, True), "+": (False, True), "?": (True, False)}


class PatternItem(NamedTuple):
    """A character or a class of characters, and how often it may occur."""

    accepts: Callable[[str], bool]
    may_skip: bool = False
    may_repeat: bool = False


def check_count(patterns: Collection[str]) -> None:
    """Raises ValueError for more patterns than are matched in a short time."""
    kinds = {
        "patterns": (MAX_PATTERNS, len(patterns)),
        "patterns with operators or escapes": (MAX_PARSED, sum(map(bool, map(SPECIAL.search, patterns)))),
        "*, + and ? in all patterns": (MAX_REPEATING, sum(len(REPEATING.findall(each)) for each in patterns)),
    }
    for kind, (most, count) in kinds.items():
        if count > most:
            raise ValueError(f"it may have {most} {kind}, it has {count}")


def check_pattern(pattern: str) -> None:
    """Raises ValueError for what is not supported."""
    parse(without_anchors(pattern))


def matches(pattern: str, name: str) -> bool:
    """Whether re.match(rf"(.*\\.)?({pattern})$", name) matches. pattern: a checked one."""
    body, is_anchored = without_anchors(pattern), pattern.startswith("^")
    if SPECIAL.search(body) is None:
        end = ending(name, len(body), is_anchored)
        return end == body or (end is not None and all(map(accepts_char, body, end)))
    items = parse(body)
    if REPEATING.search(body) is None:
        end = ending(name, len(items), is_anchored)
        return end is not None and all(item.accepts(char) for item, char in zip(items, end, strict=True))
    return matches_all(items, name, is_anchored)


def without_anchors(pattern: str) -> str:
    return pattern.removeprefix("^").removesuffix("$")


def ending(name: str, length: int, is_anchored: bool) -> str | None:
    """The last characters of a name, if they are all of it or follow a dot; anchored: only all of it."""
    start = len(name) - length
    is_start = start == 0 or (start > 0 and not is_anchored and name[start - 1] == ".")
    return name[start:] if is_start else None


def accepts_char(expected: str, char: str) -> bool:
    return expected in (char, ".")


def matches_all(items: tuple[PatternItem, ...], name: str, is_anchored: bool) -> bool:
    """Whether the items match the whole name, or what follows one of its dots.

    Follows all possible places in the items at once.
    """
    places = skipping(items, {0})
    for char in name:
        accepting = [place for place in places if place < len(items) and items[place].accepts(char)]
        after = {place + 1 for place in accepting} | {place for place in accepting if items[place].may_repeat}
        if char == "." and not is_anchored:
            after.add(0)
        places = skipping(items, after)
    return len(items) in places


def skipping(items: tuple[PatternItem, ...], places: set[int]) -> set[int]:
    """The places, and those that follow by leaving out items."""
    reached = set(places)
    for place in places:
        while place < len(items) and items[place].may_skip and place + 1 not in reached:
            place += 1
            reached.add(place)
    return reached


@lru_cache(maxsize=MAX_PARSED)
def parse(pattern: str) -> tuple[PatternItem, ...]:
    """The items of a pattern without anchors. Raises ValueError for what is not supported."""
    if len(pattern) > MAX_CHARS:
        raise ValueError(f"a pattern may have {MAX_CHARS} characters, it has {len(pattern)}")
    items, place = [], 0
    while place < len(pattern):
        char, place = pattern[place], place + 1
        if char == "\\" and place < len(pattern):
            accepts, place = escaped(pattern[place]), place + 1
        elif char in OPERATORS or char == "\\":
            raise ValueError(f"{char!r} is not supported: name the modules one by one")
        else:
            accepts = any_char if char == "." else char.__eq__
        skips, repeats = REPEATS.get(pattern[place : place + 1], (False, False))
        place += skips or repeats
        items.append(PatternItem(accepts, skips, repeats))
    return tuple(items)


def any_char(char: str) -> bool:
    return True


def escaped(char: str) -> Callable[[str], bool]:
    if char in CLASSES:
        return CLASSES[char]
    if char.isalnum():
        raise ValueError(f"\\{char} is not supported: name the modules one by one")
    return char.__eq__
