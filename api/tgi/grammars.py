"""TGI's grammars as constraints. What a schema or a pattern may hold is found where it is compiled."""

from typing import Any

from api.tgi.bodies import Grammar, RegexGrammar, SchemaGrammar
from api.tgi.closed import closed
from api.tgi.errors import Invalid
from inference import foreign
from inference.types import Constraint


def constraint(grammar: Grammar | None) -> Constraint | None:
    """Raises Invalid."""
    match grammar:
        case None:
            return None
        case RegexGrammar():
            return Constraint("regex", grammar.value)
        case SchemaGrammar():
            return _schema(grammar.value.schema)
        case _:
            return _schema(_parsed(grammar.value))


def _parsed(value: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        schema = foreign.parsed(value)
    except ValueError as error:
        raise Invalid(f"grammar is not valid: {error}") from None
    if not isinstance(schema, dict):
        raise Invalid("grammar is not valid: a JSON schema is an object")
    return schema


def _schema(schema: dict[str, Any]) -> Constraint:
    """Of an object, be it not said: to JSON schema, properties alone forbid no text or number."""
    if "properties" not in schema:
        raise Invalid("grammar is not valid: Grammar must have a 'properties' field")
    return Constraint("json_schema", {"type": "object"} | closed(schema))
