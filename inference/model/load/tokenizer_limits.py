"""Refuses a tokenizer.json whose steps would turn a short text into a huge one.

The steps come from the model's folder and run on every prompt: a few replacements in a row make gigabytes of
one sentence. Reads those sections alone, before the tokenizer is opened; the vocabulary is skipped.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from inference.errors import BadRequest
from inference.struct_types import ready

TOKENIZER_FILE = "tokenizer.json"
MAX_GROWTH = 64  # of a text, by all steps of a section together; NFKD alone makes 18 characters of one
MAX_ADDED_CHARS = 256  # by a step that adds its own text
MAX_ADDED_TOKENS = 256  # by a template around each text
MAX_PADDING = 1_000_000
MAX_WORD_CHARS = 10_000  # WordPiece takes quadratic time for each word
SECTIONS = ("normalizer", "pre_tokenizer", "decoder")
NESTED_KEYS = ("normalizers", "pretokenizers", "decoders", "processors")
ADDED_TEXTS = ("prepend", "replacement", "prefix", "suffix")
UNICODE_CLASS = re.compile(r"\\[pP]\{[^}]*\}")  # not known to Python's re

Step = Mapping[str, Any]


class TokenizerModel(msgspec.Struct):
    max_input_chars_per_word: Any = None


class TokenizerFile(msgspec.Struct):
    """The sections that run on each text."""

    normalizer: Any = None
    pre_tokenizer: Any = None
    decoder: Any = None
    post_processor: Any = None
    padding: Any = None
    model: TokenizerModel | None = None


def check_tokenizer_limits(folder: Path) -> None:
    """Raise BadRequest for a tokenizer.json whose steps have no sensible bound.

    A file that is missing or malformed passes: the library that opens the tokenizer says what is wrong.
    """
    try:
        file = msgspec.json.decode((folder / TOKENIZER_FILE).read_bytes(), type=ready(TokenizerFile))
    except (OSError, ValueError, RecursionError):
        return
    for section in SECTIONS:
        check_growth(section, list(steps(getattr(file, section))))
    for step in steps(file.post_processor):
        refuse_above(
            MAX_ADDED_TOKENS, count_template_tokens(step), "its post_processor adds", "tokens to a text"
        )
    for name, value in padding_lengths(file.padding):
        refuse_above(MAX_PADDING, value, f"its padding.{name} is", "")
    if file.model and isinstance(file.model.max_input_chars_per_word, int):
        max_chars = file.model.max_input_chars_per_word
        refuse_above(MAX_WORD_CHARS, max_chars, "its model.max_input_chars_per_word is", "")


def steps(section: Any) -> Iterator[Step]:
    """The steps of a section, in order, those of nested sequences included."""
    stack = [section]
    while stack:
        step = stack.pop()
        if not isinstance(step, dict):
            continue
        yield step
        for name in NESTED_KEYS:
            nested_steps = step.get(name)
            stack.extend(reversed(nested_steps) if isinstance(nested_steps, list) else ())


def check_growth(section: str, section_steps: list[Step]) -> None:
    for step in section_steps:
        for name in ADDED_TEXTS:
            if isinstance(step.get(name), str):
                refuse_above(MAX_ADDED_CHARS, len(step[name]), f"{name} in its {section} has", "characters")
    growth = math.prod(growth_of(step) for step in section_steps)
    refuse_above(MAX_GROWTH, growth, f"its {section} can lengthen a text by a factor of", "")


def refuse_above(maximum: int, value: float, subject: str, noun: str) -> None:
    if value > maximum:
        unit = f" {noun}" if noun else ""
        raise BadRequest(TOKENIZER_FILE, f"cannot be used: {subject} {value:.6g}{unit}, at most {maximum}")


def growth_of(step: Step) -> float:
    """How much longer the step can make a text."""
    growth = GROWTHS.get(str(step.get("type")))
    return growth(step) if growth else 1


def replace_growth(step: Step) -> float:
    """The growth if the pattern matches everywhere."""
    pattern, content = step.get("pattern"), step.get("content")
    if not isinstance(pattern, dict) or not isinstance(content, str):
        return 1
    if isinstance(text := pattern.get("String"), str):
        return growth_by(len(content), len(text))
    return growth_by(len(content), shortest_match(str(pattern.get("Regex"))))


def growth_by(num_chars: int, num_replaced: int) -> float:
    """An empty match writes between all characters, and replaces none."""
    return max(1.0, num_chars / num_replaced) if num_replaced else 1.0 + num_chars


def shortest_match(pattern: str) -> int:
    """The length of the shortest match; 1 for a pattern of a syntax that Python does not know."""
    try:
        parsed = re._parser.parse(UNICODE_CLASS.sub(".", pattern))  # type: ignore[attr-defined]
    except (re.error, RecursionError, OverflowError):
        return 1
    return int(parsed.getwidth()[0])


def precompiled_growth(step: Step) -> float:
    """The longest text that a character becomes.

    Layout of SentencePiece: the size of a trie, the trie, then the texts, each with a zero byte behind it.
    """
    try:
        charsmap = base64.b64decode(step.get("precompiled_charsmap") or "")
    except (binascii.Error, ValueError, TypeError):
        return 1
    texts = charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")
    return max(1, *(len(text.decode(errors="replace")) for text in texts))


GROWTHS: Mapping[str, Callable[[Step], float]] = {
    "Replace": replace_growth,
    "Precompiled": precompiled_growth,
}


def count_template_tokens(step: Step) -> int:
    """The tokens that a TemplateProcessing adds to one text or two."""
    special_tokens = step.get("special_tokens")
    if not isinstance(special_tokens, dict):
        return 0
    counts = {
        name: len(token["ids"])
        for name, token in special_tokens.items()
        if isinstance(token, dict) and isinstance(token.get("ids"), list)
    }
    templates = [items for items in (step.get("single"), step.get("pair")) if isinstance(items, list)]
    return max(
        (sum(counts.get(special_token_id(item), 0) for item in items) for items in templates), default=0
    )


def special_token_id(item: Any) -> str:
    special_token = item.get("SpecialToken") if isinstance(item, dict) else None
    return str(special_token.get("id")) if isinstance(special_token, dict) else ""


def padding_lengths(padding: Any) -> Iterator[tuple[str, int]]:
    if isinstance(padding, dict):
        strategy = padding.get("strategy")
        fixed = strategy.get("Fixed") if isinstance(strategy, dict) else None
        for name, value in (("strategy", fixed), ("pad_to_multiple_of", padding.get("pad_to_multiple_of"))):
            if isinstance(value, int):
                yield name, value
