"""Constraint → grammar in llguidance's language, within limits. Knows no tokens.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md, and json_schema.md beside it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import any_to_lark

from inference import foreign
from inference.types import Constraint

MAX_BYTES = 64 << 10
JSON_OPTIONS = {
    # Between two tokens of JSON: nothing, a space, or a new line with its indent; never an endless run.
    "whitespace_pattern": r"(?: |\n {0,24})?",
    # oneOf is taken as anyOf: an automaton cannot count how many branches match.
    "coerce_one_of": True,
}
# What a mapping may call the one text it holds.
TEXT_KEYS = frozenset(("grammar", "lark", "gbnf", "bnf", "ebnf"))


def grammar(constraint: Constraint) -> str:
    """The grammar's text. Raises ValueError saying what is wrong; llguidance finds other faults later."""
    try:
        return KINDS[constraint.kind](constraint.spec)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _schema(spec: Any) -> str:
    """A mapping, or the JSON text of one."""
    schema = foreign.parsed(_bounded(spec)) if isinstance(spec, str) else spec
    if not isinstance(schema, Mapping):
        raise ValueError("it must be a JSON object")
    plain = {key: value for key, value in schema.items() if key != "x-guidance"}  # would replace our options
    return LLMatcher.grammar_from_json_schema(_bounded(json.dumps(plain)), overrides=JSON_OPTIONS)


def _object(_: Any) -> str:
    return _schema({"type": "object"})


def _regex(spec: Any) -> str:
    return LLMatcher.grammar_from_regex(_bounded(spec))


def _choice(spec: Any) -> str:
    if not isinstance(spec, list | tuple) or not spec or not all(isinstance(text, str) for text in spec):
        raise ValueError("it must be a list of at least one string")
    rule = " | ".join(json.dumps(text, ensure_ascii=False) for text in spec)
    return LLMatcher.grammar_from_lark(_bounded(f"start: {rule}"))


def _grammar(spec: Any) -> str:
    """Text in Lark's or llama.cpp's language (GBNF), a mapping that holds such a text, GBNF rules by name, or
    llguidance's own form: a mapping with "grammars"."""
    if isinstance(spec, Mapping) and "grammars" in spec:
        return _bounded(json.dumps(spec))
    return LLMatcher.grammar_from_lark(_lark(_bounded(_text(spec))))


KINDS: dict[str, Callable[[Any], str]] = {
    "json_schema": _schema,
    "json": _object,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
}


def _text(spec: Any) -> str:
    if not isinstance(spec, Mapping):
        return spec
    rules = {name: body for name, body in spec.items() if name != "type"}
    if not rules or not all(isinstance(part, str) for part in (*rules, *rules.values())):
        raise ValueError("it must hold a grammar's text, or rules by name with 'root' among them")
    if len(rules) == 1 and TEXT_KEYS & rules.keys():
        return next(iter(rules.values()))
    return "\n".join(f"{name} ::= {body}" for name, body in rules.items())


def _lark(text: str) -> str:
    try:
        return any_to_lark(text)
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
