"""Schemas whose objects have no properties but those that are named."""

from typing import Any

import pytest

from api.tgi.closed import closed

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
def test_an_object_has_no_properties_but_those_named(schema: Any, expected: Any) -> None:
    assert closed(schema) == expected


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
def test_what_says_otherwise_stays_as_it_is(schema: Any) -> None:
    assert closed(schema) == schema
