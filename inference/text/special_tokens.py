"""Finds the special tokens that a user's text spells, so that they are encoded as the text that they are.

A tokenizer makes the real token of such text: a message could end its turn and forge another one. Marks are
put into the texts before the chat template joins them to its own special tokens, and taken out afterwards.
The prompt's tokenizer encodes apart what stood on both sides of a mark. Texts without such spellings, and
their tokens, stay as they are. So do the tags that the template itself looks for in what an assistant wrote.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

MARKS = range(0x2A6D6, 0x20000, -1)  # rare ideographs: no template strips, escapes or changes them
NAMING_KEYS = frozenset(("role", "type"))  # their values are names, and no part of a message's text
MapText = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text, and the positions in it that no token may cross."""

    text: str
    split_at: tuple[int, ...] = ()

    def last(self, num_chars: int) -> "MarkedText":
        """Its last characters."""
        num_dropped = len(self.text) - num_chars
        if num_dropped <= 0:
            return self
        split_at = tuple(position - num_dropped for position in self.split_at if position > num_dropped)
        return MarkedText(self.text[num_dropped:], split_at)


class SpecialTokenMarker:
    """Marks the spellings of `special_tokens` in texts, each behind its first character.

    Tokens of one character are left out: there is nothing to put apart.

    tags  names that stay as they are in an assistant's content: see TemplateFeatures.tags
    """

    def __init__(self, special_tokens: Iterable[str], tags: Set[str] = frozenset()) -> None:
        names = sorted({name for name in special_tokens if len(name) > 1})
        self._pattern = re.compile(trie_pattern(names)) if names else None
        self._tags = tags

    def render(self, values: Any, apply: Callable[[Any], str]) -> MarkedText:
        """The text that `apply` makes of the values, with the spellings in their texts as places to split.

        values: dicts, lists and plain values, as the chat template gets them. A spelling may begin in one
        text and end in the next one: the template may write nothing between them.
        """
        texts: list[str] = []
        names: list[str] = []
        answer_indices: set[int] = set()  # of the texts that an assistant wrote

        def collect_answer(text: str) -> str:
            answer_indices.add(len(texts))
            return collect_into(texts)(text)

        map_texts(values, collect_into(texts), collect_into(names), collect_answer)
        starts = self._spelling_starts("".join(texts), self._tag_places(texts, answer_indices))
        if not starts and not any(map(self._spelling_starts, names)):
            return MarkedText(apply(values))
        mark = unused_mark([*texts, *names])
        marked_texts = insert_marks(texts, starts, mark)

        def next_text(_: str) -> str:
            return next(marked_texts)

        marked_values = map_texts(
            values,
            next_text,
            lambda name: "".join(insert_marks([name], self._spelling_starts(name), mark)),
            next_text,
        )
        return without_marks(apply(marked_values), mark)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The start and the end of each spelling in the text."""
        return [] if self._pattern is None else [match.span() for match in self._pattern.finditer(text)]

    def split(self, text: str) -> MarkedText:
        """The text with the places to split at."""
        return MarkedText(text, tuple(start + 1 for start in self._spelling_starts(text)))

    def _spelling_starts(self, text: str, tag_places: Set[int] = frozenset()) -> list[int]:
        return [start for start, _ in self.spans(text) if start not in tag_places]

    def _tag_places(self, texts: Sequence[str], answer_indices: Set[int]) -> set[int]:
        """Where the tags start in the answers, counted through all texts."""
        if not self._tags:
            return set()
        begins = list(accumulate(map(len, texts), initial=0))
        return {
            begins[i] + start
            for i in answer_indices
            for start, end in self.spans(texts[i])
            if texts[i][start:end] in self._tags
        }


def trie_pattern(names: list[str]) -> str:
    """A regular expression that matches the longest of the names, without trying one after the other."""
    rests_by_head: dict[str, list[str]] = {}
    for name in filter(None, names):
        rests_by_head.setdefault(name[0], []).append(name[1:])
    branches = [re.escape(head) + trie_pattern(rests) for head, rests in rests_by_head.items()]
    pattern = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    if not branches:
        return ""
    return f"(?:{pattern})?" if "" in names else pattern


def map_texts(value: Any, map_text: MapText, map_name: MapText, map_answer: MapText) -> Any:
    """The value with each text in it mapped, in order; keys and the values of NAMING_KEYS are names.

    map_answer: for the content of an assistant's message
    """
    if isinstance(value, str):
        return map_text(value)
    if isinstance(value, dict):
        maps = dict.fromkeys(NAMING_KEYS, map_name)
        if value.get("role") == "assistant":
            maps["content"] = map_answer
        return {
            map_name(str(key)): map_texts(each, maps.get(key, map_text), map_name, map_answer)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [map_texts(each, map_text, map_name, map_answer) for each in value]
    return value


def collect_into(texts: list[str]) -> Callable[[str], str]:
    def collect(text: str) -> str:
        texts.append(text)
        return text

    return collect


def unused_mark(texts: Iterable[str]) -> str:
    used = set().union(*texts)
    return next(mark for mark in map(chr, MARKS) if mark not in used)


def insert_marks(texts: Iterable[str], starts: list[int], mark: str) -> Iterator[str]:
    """The texts with a mark behind each of the characters `starts`, which count through all texts."""
    remaining, end = iter([*starts, None]), 0
    start = next(remaining)
    for text in texts:
        begin, end = end, end + len(text)
        bounds = [0]
        while start is not None and start < end:
            bounds.append(start + 1 - begin)
            start = next(remaining)
        yield mark.join(text[low:high] for low, high in pairwise([*bounds, len(text)]))


def without_marks(text: str, mark: str) -> MarkedText:
    segments = text.split(mark)
    return MarkedText("".join(segments), tuple(accumulate(map(len, segments[:-1]))))
