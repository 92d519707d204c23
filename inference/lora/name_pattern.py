"""Matches module names with the patterns of rank_pattern and alpha_pattern, in time bounded by their lengths.

peft takes them as regular expressions. A stranger's expression may take exponential time in Python's engine:
here only what names need is supported, characters, `.`, `\\d`, `\\w`, escapes, `*`, `+`, `?`, `^` and `$`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

MAX_CHARS = 500
OPERATORS = frozenset("[]{}^$|()*+?")
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


def matches(pattern: str, name: str) -> bool:
    """Whether re.match(rf"(.*\\.)?({pattern})$", name) matches. Raises ValueError."""
    items = parse(pattern.removeprefix("^").removesuffix("$"))
    starts = [0]
    if not pattern.startswith("^"):
        starts += [place + 1 for place, char in enumerate(name) if char == "."]
    return any(matches_all(items, name[start:]) for start in starts)


def matches_all(items: tuple[PatternItem, ...], text: str) -> bool:
    """Whether the items match the whole text. Follows all possible places in the items at once."""
    places = skipping(items, {0})
    for char in text:
        after = set()
        for place in places:
            if place < len(items) and items[place].accepts(char):
                after.add(place + 1)
                if items[place].may_repeat:
                    after.add(place)
        places = skipping(items, after)
    return len(items) in places


def skipping(items: tuple[PatternItem, ...], places: set[int]) -> set[int]:
    """The places, and those that follow by leaving out items."""
    reached = set(places)
    for place in sorted(places):
        while place < len(items) and items[place].may_skip:
            place += 1
            reached.add(place)
    return reached


@lru_cache(maxsize=1024)
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
