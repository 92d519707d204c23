"""Translates a Constraint into a grammar for llguidance, of at most MAX_BYTES. Knows no tokens.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md, and json_schema.md in the same folder.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llguidance import LLMatcher

from inference import untrusted_json
from inference.structured_output.closed_schema import close_schema
from inference.structured_output.gbnf import gbnf_to_lark
from inference.types import Constraint

MAX_BYTES = 64 << 10
JSON_OPTIONS = {
    # White space between JSON tokens: none, one space, or a newline and up to 24 spaces.
    "whitespace_pattern": r"(?: |\n {0,24})?",
    # Treat oneOf as anyOf: an automaton cannot count how many branches match.
    "coerce_one_of": True,
}
# Keys under which a mapping may contain a grammar's text.
TEXT_KEYS = frozenset(("grammar", "lark", "gbnf", "bnf", "ebnf"))
# A line that only Lark has. llguidance's own pattern misses a start rule with modifiers for parse trees, and
# takes time quadratic in empty lines: a minute for 60,000, in which no other thread runs.
LARK_LINE = re.compile(r"^[^\S\n]*(?:%llguidance\b|[?!]*start\s*:)", re.MULTILINE)


def to_grammar(constraint: Constraint) -> str:
    """The grammar's text. Raises ValueError with the reason; llguidance detects other faults later."""
    try:
        return GRAMMAR_WRITERS[constraint.kind](constraint.spec)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _schema(spec: Any) -> str:
    """A JSON schema: a mapping, or its JSON text. Its objects are closed."""
    schema = untrusted_json.parse_json(_bounded(spec)) if isinstance(spec, str) else spec
    if not isinstance(schema, Mapping):
        raise ValueError("it must be a JSON object")
    # x-guidance in the schema would replace JSON_OPTIONS.
    own_keys = {key: value for key, value in schema.items() if key != "x-guidance"}
    _bounded(json.dumps(own_keys))
    return LLMatcher.grammar_from_json_schema(json.dumps(close_schema(own_keys)), overrides=JSON_OPTIONS)


def _regex(spec: Any) -> str:
    return LLMatcher.grammar_from_regex(_bounded(spec))


def _choice(spec: Any) -> str:
    if not isinstance(spec, list | tuple) or not spec or not all(isinstance(text, str) for text in spec):
        raise ValueError("it must be a list of at least one string")
    rule = " | ".join(json.dumps(text, ensure_ascii=False) for text in spec)
    return LLMatcher.grammar_from_lark(_bounded(f"start: {rule}"))


def _grammar(spec: Any) -> str:
    """A grammar: text in Lark's syntax or llama.cpp's (GBNF), a mapping with such a text, a mapping of GBNF
    rules by name, or a mapping with "grammars" in llguidance's own format."""
    if isinstance(spec, Mapping) and "grammars" in spec:
        return _bounded(json.dumps(spec))
    return LLMatcher.grammar_from_lark(_lark(_bounded(_text(spec))))


GRAMMAR_WRITERS: dict[str, Callable[[Any], str]] = {
    "json_schema": _schema,
    "json": lambda _: _schema({"type": "object"}),
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
}


def _text(spec: Any) -> str:
    if not isinstance(spec, Mapping):
        return spec
    rules = {name: body for name, body in spec.items() if name != "type"}
    if not rules or not all(isinstance(item, str) for item in (*rules, *rules.values())):
        raise ValueError("it must contain a grammar's text, or rules by name, including 'root'")
    if len(rules) == 1 and TEXT_KEYS & rules.keys():
        return next(iter(rules.values()))
    return "\n".join(f"{name} ::= {body}" for name, body in rules.items())


def _lark(text: str) -> str:
    if LARK_LINE.search(text):
        return text
    try:
        return gbnf_to_lark(text)
    except RecursionError:
        raise
    except Exception as error:  # llguidance's converter raises nothing narrower
        raise ValueError(str(error)) from None


def _bounded(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"it must be a string, got {type(text).__name__}")
    size = len(text.encode(errors="replace"))
    if size > MAX_BYTES:
        raise ValueError(f"it has {size} bytes, more than {MAX_BYTES}")
    return text
