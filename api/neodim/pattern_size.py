"""Counts the elements of a regular expression of the `regex` package, with its repetitions written out.

The package compiles `(?:a{3000}){3000}` into nine million elements of 250 bytes, and lets no other thread run
meanwhile: a pattern is counted before it is compiled. Uses the package's own parser, which knows all syntax.
"""

from collections.abc import Iterator
from typing import Any

import regex
from regex import _regex_core as core

# With full case folding (?if), each set or range also becomes the strings that fold into it, such as "ss".
NUM_FOLDED_STRINGS = 200


def count_elements(pattern: str) -> int:
    """Raises regex.error for an invalid pattern, RecursionError for one that is nested too deeply."""
    return count_written_out(parse(pattern))


def parse(pattern: str) -> Any:
    """The parsed pattern. A global flag such as (?x) inside it makes the parser start again."""
    flags = 0
    while True:
        source = core.Source(pattern)
        info = core.Info(flags, source.char_type, {})
        info.guess_encoding = regex.UNICODE
        source.ignore_space = bool(info.flags & regex.VERBOSE)
        try:
            return core._parse_pattern(source, info)
        except core._UnscopedFlagSet:
            flags = info.global_flags


def count_written_out(node: Any) -> int:
    if isinstance(node, core.SetBase | core.Range) and node.case_flags == core.FULLIGNORECASE:
        return NUM_FOLDED_STRINGS
    return 1 + num_copies(node) * sum(map(count_written_out, children(node)))


def num_copies(node: Any) -> int:
    """The compiler writes out what a repetition must match, and adds a loop for what it may match."""
    if not isinstance(node, core.GreedyRepeat):
        return 1
    return node.min_count + (node.max_count != node.min_count)


def children(node: Any) -> Iterator[Any]:
    for value in vars(node).values():
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, core.RegexBase):
                yield each
