"""Texts that are not to be written, as the runs of tokens that would write them.

Knows how tokenizers spell a word that stands at a line's beginning, behind a space, and behind neither.
"""

from collections.abc import Iterable, Iterator

from inference.errors import BadRequest
from inference.text.encode import check_unicode
from inference.text.vocabulary import Vocabulary

MAX_WORDS = 1_000
MAX_CHARS = 1_000
STEM = "\n"  # no tokenizer joins a word to it

Run = tuple[int, ...]


def runs_of(words: Iterable[str], vocabulary: Vocabulary) -> tuple[Run, ...]:
    """Raises BadRequest("bad_words")."""
    words = tuple(words)
    if len(words) > MAX_WORDS:
        raise BadRequest("bad_words", f"may hold at most {MAX_WORDS} texts", len(words))
    for word in words:
        if not 0 < len(word) <= MAX_CHARS:
            raise BadRequest("bad_words", f"needs texts of 1 to {MAX_CHARS} characters", word)
        check_unicode(word, "bad_words")
    return tuple(dict.fromkeys(run for word in words for run in spellings(word, vocabulary) if run))


def spellings(word: str, vocabulary: Vocabulary) -> Iterator[Run]:
    """The usual tokens of the word, however it begins."""
    bare = word.lstrip(" ") or word
    yield encoded(bare, vocabulary)
    yield encoded(f" {bare}", vocabulary)
    stem, whole = encoded(STEM, vocabulary), encoded(STEM + bare, vocabulary)
    if stem and whole[: len(stem)] == stem:
        yield whole[len(stem) :]


def encoded(text: str, vocabulary: Vocabulary) -> Run:
    return tuple(vocabulary.tokenizer.encode(text, add_special_tokens=False, verbose=False))
