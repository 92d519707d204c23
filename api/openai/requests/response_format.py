"""Converts the fields that set the answer's format to a Constraint.

Supports the fields of OpenAI, TGI, huggingface_hub (which sends a schema with json_object), vLLM before and
since 0.11, llama.cpp and SGLang. The backend compiles schemas, patterns and grammars.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.generation import CommonRequest, ResponseFormat
from inference import untrusted_json
from inference.errors import short
from inference.types import Constraint, ConstraintKind
from settings.groups import ServerSettings

ONE_KIND = (
    "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."  # vLLM's
)
UNSET: tuple[Any, ...] = (None, False)

# The kind of each field's constraint: of structured_outputs, of vLLM before 0.11, of llama.cpp and SGLang.
STRUCTURED: Mapping[str, ConstraintKind] = {
    "json": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "json_object": "json",
}
GUIDED = {f"guided_{field}": STRUCTURED[field] for field in ("json", "regex", "choice", "grammar")}
TOP_LEVEL: Mapping[str, ConstraintKind] = {
    "grammar": "grammar",
    "json_schema": "json_schema",
    "ebnf": "grammar",
    "regex": "regex",
}

# The values of the fields that set the format, and these values in a request without a format.
FORMAT_FIELDS = attrgetter("response_format", "structured_outputs", *GUIDED, *TOP_LEVEL)
NO_FORMAT = FORMAT_FIELDS(CommonRequest())


def parse_constraint(body: CommonRequest, settings: ServerSettings) -> Constraint | None:
    """Raises InvalidBody, and InvalidParameter if settings.disable_grammar_support is true."""
    constraints = [*_structured_constraints(body)]
    if body.response_format and (from_format := _parse_format(body.response_format)):
        constraints.append(from_format)
    constraint = _the_only(constraints)
    if constraint and settings.disable_grammar_support:
        raise InvalidParameter(
            "grammar is not supported: DISABLE_GRAMMAR_SUPPORT is on", constraint.field_name
        )
    return constraint


def structured_constraint(body: CommonRequest) -> Constraint | None:
    """The constraint of the fields other than response_format. Raises InvalidBody for several."""
    return _the_only(list(_structured_constraints(body)))


def _structured_constraints(body: CommonRequest) -> list[Constraint]:
    """guided_* fields are read only without structured_outputs: some clients send both, for any vLLM."""
    outputs = body.structured_outputs
    if outputs and outputs.structural_tag is not None:
        raise InvalidParameter("structural_tag is not supported", "structured_outputs.structural_tag")
    structured = list(_constraints(outputs, STRUCTURED, "structured_outputs.")) if outputs else []
    return [
        *(structured or _constraints(body, GUIDED)),
        *_constraints(body, TOP_LEVEL, unset=(*UNSET, "")),
    ]


def _constraints(
    source: Any, fields: Mapping[str, ConstraintKind], prefix: str = "", unset: tuple[Any, ...] = UNSET
) -> Iterable[Constraint]:
    for field, kind in fields.items():
        value = getattr(source, field)
        if value not in unset:
            yield Constraint(kind, None if kind == "json" else value, prefix + field)


def _the_only(constraints: list[Constraint]) -> Constraint | None:
    """The constraint that all fields set. Raises InvalidBody if they set several."""
    if len(constraints) > 1 and len(set(map(_canonical, constraints))) > 1:
        fields = [constraint.field_name for constraint in constraints]
        raise InvalidBody(f"{ONE_KIND} This request sets {' and '.join(fields)}.", fields[-1])
    return constraints[0] if constraints else None


def _canonical(constraint: Constraint) -> str:
    """A text that is equal for equal constraints: a schema may be an object or its JSON text."""
    spec = constraint.spec
    if constraint.kind == "json_schema" and isinstance(spec, str):
        try:
            spec = untrusted_json.parse_json(spec)
        except ValueError:
            pass  # the backend refuses it
    return json.dumps([constraint.kind, spec], sort_keys=True)


def _parse_format(response_format: ResponseFormat) -> Constraint | None:
    if response_format.type not in FORMATS:
        rule = f"must be one of {', '.join(FORMATS)}, got {short(response_format.type)}"
        raise InvalidBody(f"response_format.type {rule}", "response_format.type")
    return FORMATS[response_format.type](response_format)


def _text(_: ResponseFormat) -> None:
    return None


def _json(response_format: ResponseFormat) -> Constraint:
    """Any object, or one of the schema, which peers take from different fields."""
    named_schema = response_format.json_schema
    schemas = (response_format.schema, response_format.value, named_schema and named_schema.schema)
    return _schema_or_any(next((schema for schema in schemas if schema is not None), None))


def _schema(response_format: ResponseFormat) -> Constraint:
    """OpenAI's named schema; TGI's clients put the same object into `value`, llama.cpp's use `schema`."""
    named_schema, value = response_format.json_schema, response_format.value
    if named_schema is not None:
        return _schema_or_any(named_schema.schema)
    if response_format.schema is not None:
        return _schema_or_any(response_format.schema)
    if not isinstance(value, dict):
        raise InvalidBody("response_format.json_schema is required", "response_format.json_schema")
    return Constraint("json_schema", value.get("schema", value))


def _schema_or_any(schema: Any) -> Constraint:
    """The schema true is any JSON; false is none, so no answer would satisfy it."""
    if schema is False:
        raise InvalidBody("the schema false allows no answer: send an object", "response_format")
    return (
        Constraint("json")
        if schema is None or isinstance(schema, bool)
        else Constraint("json_schema", schema)
    )


def _regex(response_format: ResponseFormat) -> Constraint:
    pattern = response_format.value if response_format.pattern is None else response_format.pattern
    if not isinstance(pattern, str):
        raise InvalidBody("response_format.value must be a regular expression", "response_format.value")
    return Constraint("regex", pattern)


def _grammar(response_format: ResponseFormat) -> Constraint:
    if response_format.grammar is None:
        raise InvalidBody("response_format.grammar is required", "response_format.grammar")
    return Constraint("grammar", response_format.grammar)


FORMATS: dict[str, Callable[[ResponseFormat], Constraint | None]] = {
    "text": _text,
    "json_object": _json,
    "json": _json,
    "json_schema": _schema,
    "regex": _regex,
    "grammar": _grammar,
}
