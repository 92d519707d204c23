"""Converts the fields that set the answer's format to a Constraint.

Supports the fields of OpenAI, TGI, huggingface_hub (which sends a schema with json_object), and vLLM before
and since 0.11. The backend compiles schemas, patterns and grammars.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.generation import CommonRequest, ResponseFormat, StructuredOutputs
from inference.errors import short
from inference.types import Constraint
from settings.groups import ServerSettings

ONE_KIND = (
    "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."  # vLLM's
)

# The values of the fields that set the format, and these values in a request without a format.
FORMAT_FIELDS = attrgetter(
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"
)
NO_FORMAT = FORMAT_FIELDS(CommonRequest())


def parse_constraint(body: CommonRequest, settings: ServerSettings) -> Constraint | None:
    """Raises InvalidBody, and InvalidParameter if settings.disable_grammar_support is true."""
    from_outputs = structured_constraint(body)
    from_format = _parse_format(body.response_format) if body.response_format else None
    if from_outputs and from_format:
        raise InvalidBody(ONE_KIND, "response_format")
    constraint = from_outputs or from_format
    if constraint and settings.disable_grammar_support:
        raise InvalidParameter("grammar is not supported: DISABLE_GRAMMAR_SUPPORT is on", "response_format")
    return constraint


def structured_constraint(body: CommonRequest) -> Constraint | None:
    """The constraint in structured_outputs or the older guided_* fields. Raises InvalidBody for several."""
    outputs = body.structured_outputs or StructuredOutputs()
    if outputs.structural_tag is not None:
        raise InvalidParameter("structural_tag is not supported", "structured_outputs.structural_tag")
    constraints: list[Constraint] = []
    for source, fields in ((outputs, STRUCTURED), (body, GUIDED)):
        for field, make in fields.items():
            value = getattr(source, field)
            if value is not None and value is not False:
                constraints.append(make(value))
    if len(constraints) > 1:
        raise InvalidBody(ONE_KIND, "structured_outputs")
    return constraints[0] if constraints else None


STRUCTURED: dict[str, Callable[[Any], Constraint]] = {
    "json": lambda value: Constraint("json_schema", value),
    "regex": lambda value: Constraint("regex", value),
    "choice": lambda value: Constraint("choice", value),
    "grammar": lambda value: Constraint("grammar", value),
    "json_object": lambda _: Constraint("json"),
}
GUIDED = {f"guided_{field}": STRUCTURED[field] for field in ("json", "regex", "choice", "grammar")}


def _parse_format(response_format: ResponseFormat) -> Constraint | None:
    if response_format.type not in FORMATS:
        rule = f"must be one of {', '.join(FORMATS)}, got {short(response_format.type)}"
        raise InvalidBody(f"response_format.type {rule}", "response_format.type")
    return FORMATS[response_format.type](response_format)


def _text(_: ResponseFormat) -> None:
    return None


def _json(response_format: ResponseFormat) -> Constraint:
    return (
        Constraint("json")
        if response_format.value is None
        else Constraint("json_schema", response_format.value)
    )


def _schema(response_format: ResponseFormat) -> Constraint:
    """OpenAI's named schema; TGI's clients put the same object into `value`."""
    named_schema = response_format.json_schema
    if named_schema is None and isinstance(response_format.value, dict):
        return Constraint("json_schema", response_format.value.get("schema", response_format.value))
    if named_schema is None:
        raise InvalidBody("response_format.json_schema is required", "response_format.json_schema")
    return (
        Constraint("json_schema", named_schema.schema)
        if isinstance(named_schema.schema, dict)
        else Constraint("json")
    )


def _regex(response_format: ResponseFormat) -> Constraint:
    if not isinstance(response_format.value, str):
        raise InvalidBody("response_format.value must be a regular expression", "response_format.value")
    return Constraint("regex", response_format.value)


FORMATS: dict[str, Callable[[ResponseFormat], Constraint | None]] = {
    "text": _text,
    "json_object": _json,
    "json": _json,
    "json_schema": _schema,
    "regex": _regex,
}
