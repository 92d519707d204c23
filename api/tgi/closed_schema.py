"""Closes a JSON schema as TGI does: objects may only have the properties that the schema names.

JSON Schema allows additional properties by default. outlines, which compiles TGI's grammars, does not
(outlines-core, json_schema/parsing.rs, parse_properties).
"""

import json
from collections.abc import Callable
from typing import Any

# With one of these keywords, `properties` does not name every property of the object.
COMBINING_KEYWORDS = {"anyOf", "oneOf", "$ref", "patternProperties", "unevaluatedProperties"}
ALL_OF = '"allOf": '  # a schema with allOf is not closed: closed subschemas would exclude each other


def close_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `additionalProperties: false` added to objects that do not set it."""
    return schema if ALL_OF in json.dumps(schema) else _close_schema(schema)


def _close_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_close_schema(each) for each in schema]
    if not isinstance(schema, dict) or ("properties" in schema and COMBINING_KEYWORDS & schema.keys()):
        return schema
    inner = {
        key: SUBSCHEMA_KEYWORDS[key](value) if key in SUBSCHEMA_KEYWORDS else value
        for key, value in schema.items()
    }
    return {"additionalProperties": False} | inner if _names_all_required(schema) else inner


def _names_all_required(schema: dict[str, Any]) -> bool:
    """Whether the schema names properties, including all that it requires."""
    named, required = schema.get("properties"), schema.get("required", [])
    return isinstance(named, dict) and isinstance(required, list) and set(map(str, required)) <= named.keys()


def _close_by_name(schemas: Any) -> Any:
    return (
        {name: _close_schema(each) for name, each in schemas.items()}
        if isinstance(schemas, dict)
        else schemas
    )


# Keywords whose values are schemas: an object of schemas by name, a list, or one schema.
SUBSCHEMA_KEYWORDS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("properties", "$defs", "definitions"), _close_by_name),
    **dict.fromkeys(("anyOf", "oneOf", "prefixItems", "items", "additionalProperties"), _close_schema),
}
