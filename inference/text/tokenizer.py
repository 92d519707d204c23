"""Encodes prompts, locates the characters of each token, and finds the token sequences of bad words.

Knows Hugging Face tokenizers of all kinds; knows no requests.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, takewhile
from typing import Any

from inference.errors import BadRequest
from inference.text.detokenizer import make_detokenizer
from inference.text.vocabulary import Vocabulary
from inference.tokenized import TokenSpan

CharSpan = tuple[int, int]
TokenRun = tuple[int, ...]

MAX_CHARS_PER_TOKEN = 64  # a text longer than this times its limit of tokens is not even tokenized
MAX_GAP_CHARS = 16  # characters that a tokenizer may drop between two tokens
STEM = "\n"  # no tokenizer merges it with the word after it


class PromptTokenizer:
    """Encodes prompts.

    add_special_tokens  True: as the tokenizer does by default; False: none; None: only those at the start,
                        because the answer continues the text
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.tokenizer: Any = vocabulary.tokenizer
        sample_ids = self.tokenizer.encode("a", add_special_tokens=True)
        self._prefix_ids = tuple(takewhile(vocabulary.special_ids.__contains__, sample_ids))
        self._suffix_ids = tuple(takewhile(vocabulary.special_ids.__contains__, reversed(sample_ids)))[::-1]
        bos_token_id = self.tokenizer.bos_token_id
        self._bos_ids = () if bos_token_id is None else (bos_token_id,)

    def encode(
        self, text: str, add_special_tokens: bool | None, split_at: Sequence[int] = ()
    ) -> tuple[int, ...]:
        """The ids of the text. split_at: positions in it, ascending, that no token crosses."""
        if split_at:
            ids = self._encode_pieces(text, add_special_tokens is True, split_at)
        else:
            ids = self._encode(text, add_special_tokens is True)
        return (*self._missing_prefix_ids(ids, add_special_tokens), *ids)

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool | None
    ) -> Iterator[tuple[int, ...]]:
        """The ids of each text, as `encode` gives them."""
        batch = self.tokenizer(list(texts), add_special_tokens=add_special_tokens is True, verbose=False)
        for ids in map(tuple, batch["input_ids"]):
            yield (*self._missing_prefix_ids(ids, add_special_tokens), *ids)

    def token_spans(
        self, text: str, add_special_tokens: bool | None, split_at: Sequence[int] = ()
    ) -> tuple[TokenSpan, ...]:
        """The ids of `encode`, each with its character span in `text`; empty for added special tokens."""
        if split_at or not getattr(self.tokenizer, "is_fast", False):
            return tuple(
                locate_tokens(self.vocabulary, text, self.encode(text, add_special_tokens, split_at))
            )
        encoding = self.tokenizer(
            text, add_special_tokens=add_special_tokens is True, return_offsets_mapping=True, verbose=False
        )
        ids = tuple(encoding["input_ids"])
        added_ids = self._missing_prefix_ids(ids, add_special_tokens)
        spans: list[CharSpan] = [*[(0, 0)] * len(added_ids), *encoding["offset_mapping"]]
        ids_and_spans = zip((*added_ids, *ids), spans, strict=True)
        return tuple(make_token_span(self.vocabulary, token_id, *span) for token_id, span in ids_and_spans)

    def _encode_pieces(self, text: str, add_special_tokens: bool, split_at: Sequence[int]) -> tuple[int, ...]:
        first, *others = (text[start:end] for start, end in pairwise([0, *split_at, len(text)]))
        ids = self._encode(first, add_special_tokens)
        suffix_ids = self._suffix_ids if add_special_tokens else ()
        ids = ids[: len(ids) - len(suffix_ids)]
        return (*ids, *chain.from_iterable(encode_inside(others, self.vocabulary)), *suffix_ids)

    def _encode(self, text: str, add_special_tokens: bool) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=add_special_tokens, verbose=False))

    def _missing_prefix_ids(self, ids: tuple[int, ...], add_special_tokens: bool | None) -> tuple[int, ...]:
        """The special tokens to prepend; for a text without any tokens, at least the BOS token."""
        if add_special_tokens is not None:
            return ()
        missing_ids = () if ids[: len(self._prefix_ids)] == self._prefix_ids else self._prefix_ids
        return missing_ids if ids or missing_ids else self._bos_ids


def check_unicode(text: str, field: str) -> None:
    """Raises BadRequest(field) for a lone surrogate, which no tokenizer encodes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start : error.end])
        raise BadRequest(field, "holds half of a surrogate pair, which is no character", half) from None


def locate_tokens(vocabulary: Vocabulary, text: str, ids: Sequence[int]) -> Iterator[TokenSpan]:
    """The ids with the character span in `text` of each, found by decoding the ids one by one.

    A character of several tokens belongs to the last one. A token that is not in the text has an empty span.
    """
    decoder, end = make_detokenizer(vocabulary, show_special=True), 0
    for count, token_id in enumerate(ids, 1):
        added_text = decoder.feed(token_id)
        rest = decoder.flush() if count == len(ids) else ""
        start, end = find_text(text, added_text + rest, end)
        yield make_token_span(vocabulary, token_id, start, end)


def make_token_span(vocabulary: Vocabulary, token_id: int, start: int, end: int) -> TokenSpan:
    return TokenSpan(token_id, vocabulary.text(token_id), start, end, vocabulary.name(token_id))


def find_text(text: str, fragment: str, start_at: int) -> CharSpan:
    """The span of `fragment` in the text, up to MAX_GAP_CHARS after `start_at`; empty if it is not there."""
    for candidate in (fragment, fragment.strip()):
        start = text.find(candidate, start_at, start_at + len(candidate) + MAX_GAP_CHARS) if candidate else -1
        if start >= 0:
            return start, start + len(candidate)
    return start_at, start_at


def bad_words_ids(words: Iterable[str], vocabulary: Vocabulary) -> tuple[TokenRun, ...]:
    """The token sequences that spell the words. Raises BadRequest("bad_words") for a lone surrogate."""
    words = tuple(words)
    for word in words:
        check_unicode(word, "bad_words")
    return tuple(dict.fromkeys(filter(None, chain.from_iterable(word_spellings(words, vocabulary)))))


def word_spellings(words: Sequence[str], vocabulary: Vocabulary) -> Iterator[tuple[TokenRun, ...]]:
    """The usual tokens of each word at the start of a text, after a space, and at the start of a line."""
    stripped = [word.lstrip(" ") or word for word in words]
    after_space = [f" {word}" for word in stripped]
    return zip(
        encode_texts(stripped, vocabulary),
        encode_texts(after_space, vocabulary),
        encode_inside(stripped, vocabulary),
        strict=True,
    )


def encode_inside(texts: Sequence[str], vocabulary: Vocabulary) -> Iterator[TokenRun]:
    """The ids of texts that stand inside longer ones: a tokenizer may put a space in front of them else."""
    stem_ids, *encoded = encode_texts([STEM, *(STEM + text for text in texts)], vocabulary)
    has_stem = [bool(stem_ids) and ids[: len(stem_ids)] == stem_ids for ids in encoded]
    merged_texts = (text for text, is_clean in zip(texts, has_stem, strict=True) if not is_clean)
    encoded_alone = iter(encode_texts(list(merged_texts), vocabulary))
    for ids, is_clean in zip(encoded, has_stem, strict=True):
        yield ids[len(stem_ids) :] if is_clean else next(encoded_alone)


def encode_texts(texts: Sequence[str], vocabulary: Vocabulary) -> list[TokenRun]:
    """The ids of each text, by one call of the tokenizer: a call takes as long as a short text."""
    if not texts:
        return []
    encoded = vocabulary.tokenizer(list(texts), add_special_tokens=False, verbose=False)
    return [tuple(ids) for ids in encoded["input_ids"]]
