"""The message about a name that is no setting and no flag, with the known name that was probably meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher

MIN_WORD_RATIO = 0.7  # below it two words are different words, not one of them misspelt
MIN_NAME_RATIO = 0.6


def describe_unknown(name: str, known: Iterable[str], noun: str) -> str:
    """'X is not a setting', with the nearest known name if there is a near one."""
    nearest = find_nearest(name, known)
    return f"{name} is not a {noun}" + (f"; did you mean {nearest}?" if nearest else "")


def find_nearest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` misspells or shortens; empty if there is none.

    Each word of `name` must be a word of the known one, or nearly: --allow-credits is not --allow-pickle.
    """
    words = words_of(name)
    ratios = {other: ratio(words, words_of(other)) for other in known}
    nearest = max(ratios, key=lambda other: ratios[other], default="")
    return nearest if nearest and ratios[nearest] >= MIN_NAME_RATIO else ""


def ratio(words: list[str], others: list[str]) -> float:
    """How similar two names are, from 0 to 1; 0 if a word of the first is none of the second."""
    if not all(any(word_ratio(word, other) >= MIN_WORD_RATIO for other in others) for word in words):
        return 0.0
    return word_ratio("_".join(words), "_".join(others))


def word_ratio(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def words_of(name: str) -> list[str]:
    return name.strip("-_").replace("-", "_").lower().split("_")
