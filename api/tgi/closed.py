"""JSON schemas as TGI reads them: an object has the properties that are named, and no others.

Knows JSON schema's keywords. JSON schema itself allows any further property; outlines, which compiles TGI's
grammars, does not (outlines-core, json_schema/parsing.rs, parse_properties).
"""

import json
from collections.abc import Callable
from typing import Any

# With these beside it, `properties` is not all there is to an object.
JOINS = {"anyOf", "oneOf", "$ref", "patternProperties", "unevaluatedProperties"}
JOINED = '"allOf": '  # what is closed here could not be joined with anything there


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `additionalProperties` false wherever it does not say."""
    return schema if JOINED in json.dumps(schema) else _closed(schema)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict) or ("properties" in schema and JOINS & schema.keys()):
        return schema
    inner = {key: WITHIN[key](value) if key in WITHIN else value for key, value in schema.items()}
    return {"additionalProperties": False} | inner if _is_named(schema) else inner


def _is_named(schema: dict[str, Any]) -> bool:
    """Whether it names properties, and all that it requires."""
    named, required = schema.get("properties"), schema.get("required", [])
    return isinstance(named, dict) and isinstance(required, list) and set(map(str, required)) <= named.keys()


def _by_name(schemas: Any) -> Any:
    return {name: _closed(each) for name, each in schemas.items()} if isinstance(schemas, dict) else schemas


# Where a schema holds schemas: by name, in a list, or one.
WITHIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("properties", "$defs", "definitions"), _by_name),
    **dict.fromkeys(("anyOf", "oneOf", "prefixItems", "items", "additionalProperties"), _closed),
}
