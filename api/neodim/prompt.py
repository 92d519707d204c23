"""Builds the model's input: the whole preamble, and as much of the end of the prompt as fits.

Knows a Backend's tokenizer and the rules of truncation. Special tokens are removed from texts in both
directions. Special tokens that the tokenizer adds are counted with the preamble, which is never truncated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from api.neodim.errors import ImpossibleRequest
from inference.backend import Backend
from inference.errors import BadRequest
from inference.types import GenerationRequest
from inference.validation import MAX_DETOKENIZE_IDS

Ids = tuple[int, ...]

REPLACEMENT_CHAR = "\ufffd"
MAX_TOKENS_PER_CHAR = 4  # bytes of a UTF-8 character: a byte-level tokenizer may need a token for each


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The input of the model after truncation.

    prompt               the end of the request's prompt that fits
    preamble_ids         token ids of the preamble, without the tokenizer's special tokens
    prompt_ids           token ids of `prompt`
    num_fixed_tokens     tokens of the preamble, and special tokens that the tokenizer adds
    num_original_tokens  tokens of the request's prompt before truncation
    token_ids            the whole input
    """

    preamble: str
    prompt: str
    preamble_ids: Ids
    prompt_ids: Ids
    num_fixed_tokens: int
    num_original_tokens: int
    token_ids: Ids


class PlainTokenizer:
    """Encodes and decodes texts without special tokens. A text's ids do not depend on the text before it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def strip_special(self, text: str, field: str) -> str:
        """Remove the names of special tokens from the text."""
        for id in self._special_ids(self._token_ids(text, field, special=False)):
            text = text.replace(self._backend.detokenize([id], show_special=True), "")
        return text

    def encode(self, text: str, field: str = "prompt") -> Ids:
        """The ids of the text without special tokens. Raises BadRequest for `field`."""
        (ids,) = self._without_special([self._token_ids(text, field, special=False) if text else ()])
        return ids

    def encode_texts(self, texts: Sequence[str], field: str) -> list[Ids]:
        """As `encode` for each of many short texts, none of them empty."""
        try:
            return self._without_special(self._backend.encode_texts(texts))
        except BadRequest as error:
            raise BadRequest(field, error.rule) from None

    def decode(self, ids: Sequence[int]) -> str:
        return self._backend.detokenize(ids, show_special=False) if ids else ""

    @cached_property
    def special_frame(self) -> tuple[Ids, Ids]:
        """The ids of the special tokens that the tokenizer adds before and after a prompt."""
        unframed_ids = self._token_ids("a", "prompt", special=False)
        framed_ids = self._token_ids("a", "prompt", special=None)
        starts = (i for i in range(len(framed_ids)) if framed_ids[i : i + len(unframed_ids)] == unframed_ids)
        start = next(starts, len(framed_ids))
        return framed_ids[:start], framed_ids[start + len(unframed_ids) :]

    def _token_ids(self, text: str, field: str, special: bool | None) -> Ids:
        try:
            tokens = self._backend.tokenize(GenerationRequest(text, add_special_tokens=special)).token_spans
        except BadRequest as error:
            raise BadRequest(field, error.rule) from None
        return tuple(token.id for token in tokens)

    def _without_special(self, encoded_texts: Sequence[Ids]) -> list[Ids]:
        special = self._special_ids(list(dict.fromkeys(chain.from_iterable(encoded_texts))))
        if not special:
            return list(encoded_texts)
        return [tuple(id for id in ids if id not in special) for ids in encoded_texts]

    def _special_ids(self, ids: Sequence[int]) -> set[int]:
        """The subset of `ids` that are special tokens, found by halves: few are, if any."""
        if not ids:
            return set()
        if len(ids) <= MAX_DETOKENIZE_IDS:
            full_text = self._backend.detokenize(ids, show_special=True)
            plain_text = self._backend.detokenize(ids, show_special=False)
            if plain_text == full_text:
                return set()
            if len(ids) == 1:
                return set() if plain_text else set(ids)
        half = len(ids) // 2
        return self._special_ids(ids[:half]) | self._special_ids(ids[half:])


def build_input(
    tokenizer: PlainTokenizer, preamble: str, prompt: str, budget: int, boundaries: Sequence[str]
) -> ModelInput:
    """Build an input of at most `budget` tokens. A truncated prompt begins after one of `boundaries`, if any.

    Raises ImpossibleRequest if the preamble does not fit or no text is left.
    """
    preamble = tokenizer.strip_special(preamble, "preamble")
    prompt = tokenizer.strip_special(prompt, "prompt")
    if not preamble and not prompt:
        raise ImpossibleRequest("Specify preamble and/or prompt")
    opening, closing = tokenizer.special_frame
    preamble_ids, ids = tokenizer.encode(preamble, "preamble"), tokenizer.encode(prompt)
    num_fixed_tokens = len(opening) + len(preamble_ids) + len(closing)
    if preamble_ids and num_fixed_tokens > budget:
        raise ImpossibleRequest(
            f"Cannot fit the preamble in {max(0, budget)} tokens (max_total_tokens without "
            f"generated_tokens_count): it has {num_fixed_tokens}, and is never truncated; shorten it, or "
            "raise max_total_tokens, up to the model's context"
        )
    used, used_ids = fit_prompt(tokenizer, prompt, ids, budget - num_fixed_tokens, boundaries)
    if num_fixed_tokens > budget or not (preamble or used):
        raise ImpossibleRequest(
            f"Cannot fit the prompt in {budget} tokens while using specified stop_strings"
        )
    token_ids = (*opening, *preamble_ids, *used_ids, *closing)
    return ModelInput(preamble, used, preamble_ids, used_ids, num_fixed_tokens, len(ids), token_ids)


def fit_prompt(
    tokenizer: PlainTokenizer, prompt: str, ids: Ids, max_tokens: int, boundaries: Sequence[str]
) -> tuple[str, Ids]:
    """The longest suffix of the prompt that fits in `max_tokens`, and its ids; empty if none fits."""
    if len(ids) <= max_tokens:
        return prompt, ids
    if max_tokens <= 0:
        return "", ()
    suffix, suffix_ids = last_tokens(tokenizer, prompt, ids, max_tokens)
    if not boundaries:
        return suffix, suffix_ids
    for rest in suffixes_after(suffix, boundaries):
        rest_ids = tokenizer.encode(rest)
        if len(rest_ids) <= max_tokens:  # encoded alone, a suffix may need more tokens
            return rest, rest_ids
    return "", ()


def last_tokens(tokenizer: PlainTokenizer, prompt: str, ids: Ids, max_tokens: int) -> tuple[str, Ids]:
    """The text of the last `max_tokens` tokens, and their ids; fewer if the text began inside a character."""
    for count in range(max_tokens, max(0, max_tokens - MAX_TOKENS_PER_CHAR), -1):
        last = ids[-count:]
        text = tokenizer.decode(last)
        if prompt.endswith(text) or not text.startswith(REPLACEMENT_CHAR):
            return text, last
    return "", ()


def suffixes_after(text: str, boundaries: Sequence[str]) -> Iterator[str]:
    """The rest of the text after the first boundary, then after the second, and so on.

    If several boundaries begin at the same position, the longest is used.
    """
    start = 0
    while match := first_occurrence(text, boundaries, start):
        start = match[0] + len(match[1])
        yield text[start:]


def first_occurrence(text: str, strings: Sequence[str], start: int = 0) -> tuple[int, str] | None:
    """Position and text of the earliest occurrence of any string, the longest at equal positions; or None."""
    positions = ((text.find(each, start), each) for each in strings)
    matches = [(place, -len(each), each) for place, each in positions if place >= 0]
    if not matches:
        return None
    place, _, string = min(matches)
    return place, string
