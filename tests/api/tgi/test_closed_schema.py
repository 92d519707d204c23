"""Closed schemas: objects may have only the properties that are named."""

from typing import Any

import pytest

from api.tgi.closed_schema import close_schema

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED = {"additionalProperties": False, **PERSON}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (PERSON, CLOSED),
        ({"properties": {"a": PERSON}}, {"additionalProperties": False, "properties": {"a": CLOSED}}),
        ({"type": "array", "items": PERSON}, {"type": "array", "items": CLOSED}),
        ({"anyOf": [PERSON, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$ref": "#/$defs/p", "$defs": {"p": PERSON}}, {"$ref": "#/$defs/p", "$defs": {"p": CLOSED}}),
        (
            {"additionalProperties": PERSON, "properties": {}},
            {"additionalProperties": CLOSED, "properties": {}},
        ),
    ],
)
def test_an_object_may_have_only_the_named_properties(schema: Any, expected: Any) -> None:
    assert close_schema(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"properties": True}, "additionalProperties": True},
        {**PERSON, "additionalProperties": True},
        {**PERSON, "patternProperties": {"^x": {}}},
        {**PERSON, "anyOf": [{"properties": {"b": {}}}]},
        {"properties": {"a": {"allOf": [PERSON, {"properties": {"b": {}}}]}}},
        {**PERSON, "required": ["name", "age"]},
        {"type": "object"},
        {"enum": [{"properties": {}}]},
        {"properties": 5},
        {**PERSON, "required": [["name"]]},
    ],
)
def test_schemas_that_allow_or_need_more_stay_unchanged(schema: Any) -> None:
    assert close_schema(schema) == schema
