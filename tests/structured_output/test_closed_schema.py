"""Closed schemas: objects may have only the properties that are named, and every valid use of these stays."""

import json
import random
import time
from typing import Any

import jsonschema
import pytest

from inference.structured_output.closed_schema import close_schema
from inference.types import Constraint
from tests.structured_output.conftest import RandomWriter, allowed_ids

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED = {**PERSON, "additionalProperties": False}
AGE = {"properties": {"age": {"type": "integer"}}, "required": ["age"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (PERSON, CLOSED),
        ({"properties": {"a": PERSON}}, {"properties": {"a": CLOSED}, "additionalProperties": False}),
        ({"properties": {}}, {"properties": {}, "additionalProperties": False}),
        ({"type": "array", "items": PERSON}, {"type": "array", "items": CLOSED}),
        ({"prefixItems": [PERSON], "items": [PERSON]}, {"prefixItems": [CLOSED], "items": [CLOSED]}),
        ({"anyOf": [PERSON, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"allOf": [PERSON], "title": "only one"}, {"allOf": [CLOSED], "title": "only one"}),
        ({"$ref": "#/$defs/p", "$defs": {"p": PERSON}}, {"$ref": "#/$defs/p", "$defs": {"p": CLOSED}}),
        (
            {"additionalProperties": PERSON, "properties": {}},
            {"additionalProperties": CLOSED, "properties": {}},
        ),
        (
            {"properties": {"properties": PERSON, "$ref": PERSON}},
            {"properties": {"properties": CLOSED, "$ref": CLOSED}, "additionalProperties": False},
        ),
        (
            {**PERSON, "patternProperties": {"^x": PERSON}},
            {**CLOSED, "patternProperties": {"^x": CLOSED}},
        ),
    ],
)
def test_an_object_may_have_only_the_named_properties(schema: Any, expected: Any) -> None:
    assert close_schema(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "unevaluatedProperties": True},
        {"allOf": [PERSON, {"additionalProperties": True}]},
        {"allOf": [PERSON], "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object"},
        {"type": "object", "required": ["name"]},
        {"enum": [{"properties": {}}], "default": {"properties": {}}},
        {"properties": 5},
        {"properties": 5, "allOf": [PERSON, 7, None], "anyOf": 5},
        {**PERSON, "minProperties": 2},
        {"$defs": {"p": {"$anchor": "p", **PERSON}}, "allOf": [{"$ref": "#p"}, AGE]},
        {"$defs": {"p": PERSON}, "allOf": [{"$ref": "#/$defs/q"}, AGE]},
        {"allOf": [{"$ref": "other.json#/$defs/p"}, AGE]},
        {"allOf": [{"$id": "other", **PERSON}, AGE]},
        {"allOf": [{"$ref": 5}, AGE]},
    ],
)
def test_schemas_that_allow_more_or_cannot_be_known_stay_unchanged(schema: Any) -> None:
    assert close_schema(schema) == schema


def test_the_schema_that_was_given_is_not_changed() -> None:
    schema = {"allOf": [{"$ref": "#/$defs/p"}, AGE], "$defs": {"p": PERSON}, "properties": {"a": PERSON}}
    text = json.dumps(schema)
    close_schema(schema)
    assert json.dumps(schema) == text


def test_an_embedded_document_has_references_of_its_own() -> None:
    tools = [{"$id": f"tool:{i}", "$ref": "#/$defs/p", "$defs": {"p": PERSON}} for i in range(2)]
    closed = close_schema({"anyOf": tools, "$defs": {"p": {"properties": {"other": {}}}}})
    assert [tool["$defs"]["p"] for tool in closed["anyOf"]] == [CLOSED, CLOSED]


# Each schema with texts that it must accept, and texts that it must refuse.
COMBINED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "all of two": (
        {"allOf": [PERSON, AGE]},
        [{"name": "a", "age": 1}, {"age": 1}],
        [{"name": "a"}, {"age": 1, "x": 1}],
    ),
    "inheritance": (
        {
            "$defs": {"base": PERSON, "child": {"allOf": [{"$ref": "#/$defs/base"}, AGE]}},
            "properties": {"base": {"$ref": "#/$defs/base"}, "child": {"$ref": "#/$defs/child"}},
        },
        [{"base": {"name": "a"}, "child": {"name": "a", "age": 1}}],
        [{"base": {"x": 1}}, {"base": {"age": 1}}, {"child": {"age": 1, "x": 1}}, {"x": 1}],
    ),
    "a reference with siblings": (
        {"$defs": {"base": PERSON}, "$ref": "#/$defs/base", "properties": {"b": {"type": "integer"}}},
        [{"name": "a", "b": 1}],
        [{"b": "a"}, {"x": 1}],
    ),
    "properties beside alternatives": (
        {**PERSON, "anyOf": [AGE, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]},
        [{"name": "a", "age": 1}, {"name": "a", "b": 1}],
        [{"name": "a"}, {"name": "a", "age": 1, "x": 1}],
    ),
    "a required property that is not described": (
        {**PERSON, "required": ["name", "other"]},
        [{"name": "a", "other": [1]}],
        [{"name": "a"}, {"name": "a", "other": 1, "x": 1}],
    ),
    "a value described twice": (
        {"allOf": [{"properties": {"p": {**PERSON, "required": ["name"]}}}, {"properties": {"p": AGE}}]},
        [{"p": {"name": "a", "age": 1}}],
        [{"p": {"name": "a"}}, {"x": 1}],
    ),
    "items described twice": (
        {"allOf": [{"type": "array", "items": {**PERSON, "required": ["name"]}}, {"items": AGE}]},
        [[{"name": "a", "age": 1}]],
        [[{"name": "a"}]],
    ),
    "a value that two alternatives describe": (
        {
            "properties": {"kind": {"enum": [1, 2]}},
            "required": ["kind"],
            "oneOf": [
                {"properties": {"kind": {"const": 1}, "p": PERSON}, "required": ["p"]},
                {"properties": {"kind": {"const": 2}, "p": AGE}, "required": ["p"]},
            ],
        },
        [{"kind": 1, "p": {"name": "a"}}, {"kind": 2, "p": {"age": 1}}],
        [{"kind": 1, "p": {"age": 1}}, {"kind": 1, "p": {"x": 1}}, {"kind": 2, "p": {"age": 1}, "x": 1}],
    ),
    "patterns": (
        {"allOf": [PERSON, {"patternProperties": {"^x": {"type": "integer"}}}]},
        [{"name": "a", "xy": 1}],
        [{"name": "a", "y": 1}],
    ),
    "a list": (
        {"properties": {"next": {"$ref": "#"}}},
        [{"next": {"next": {}}}],
        [{"next": {"x": 1}}, {"x": 1}],
    ),
}


@pytest.mark.parametrize(("schema", "accepted", "refused"), COMBINED.values(), ids=COMBINED)
def test_a_combination_is_closed_as_a_whole(
    writer: RandomWriter, schema: Any, accepted: list[Any], refused: list[Any]
) -> None:
    typed = {"type": "array" if isinstance(accepted[0], list) else "object", **schema}
    assert [value for value in accepted if not is_accepted(writer, typed, value)] == []
    assert [value for value in refused if is_accepted(writer, typed, value)] == []


def is_accepted(writer: RandomWriter, schema: Any, value: Any) -> bool:
    matcher = writer.compiler.compile(Constraint("json_schema", schema))
    for token_id in writer.tokenizer.encode(json.dumps(value), add_special_tokens=False):
        if token_id not in allowed_ids(matcher):
            return False
        matcher.advance(token_id)
    return bool(writer.ends & set(allowed_ids(matcher)))


def test_what_random_combinations_allow_without_other_properties_stays_allowed() -> None:
    """JSON Schema's unevaluatedProperties says the same for values that one part describes."""
    draw, counts = random.Random(3), {True: 0, False: 0}
    for _ in range(300):
        schema = random_schema(draw, 3)
        closed = jsonschema.Draft202012Validator(close_schema(schema))
        strict = jsonschema.Draft202012Validator(schema | {"unevaluatedProperties": False})
        for _ in range(8):
            value = {name: draw.randrange(3) for name in draw.sample("abcdx", draw.randrange(4))}
            is_allowed = strict.is_valid(value)
            counts[is_allowed] += 1
            assert not is_allowed or closed.is_valid(value), (schema, value)
    assert min(counts.values()) > 300


def random_schema(draw: random.Random, depth: int) -> dict[str, Any]:
    """Integer properties among a to d, required ones, and combinations of such schemas."""
    schema: dict[str, Any] = {}
    if draw.random() < 0.7:
        schema["properties"] = {
            name: {"enum": draw.sample(range(3), 2)} for name in draw.sample("abcd", draw.randrange(3))
        }
    if draw.random() < 0.3:
        schema["required"] = draw.sample("abcd", 1)
    for keyword in ("allOf", "anyOf"):
        if depth and draw.random() < 0.4:
            schema[keyword] = [random_schema(draw, depth - 1) for _ in range(draw.randrange(1, 3))]
    return schema


def nested(depth: int) -> Any:
    schema: Any = PERSON
    for _ in range(depth):
        schema = {"$id": "x", "properties": {"a": schema}, "allOf": [{"properties": {}}, {"anyOf": [{}]}]}
    return schema


WIDE = {"$defs": {"wide": {"properties": {f"p{i}": {} for i in range(2_000)}}}}
HOSTILE = {
    "embedded documents": nested(95),
    "nesting past Python's": nested(5_000),
    "many combinations of many names": {
        **WIDE,
        "properties": {f"q{i}": {"allOf": [{"$ref": "#/$defs/wide"}, {}]} for i in range(1_000)},
    },
    "a long chain of references": {
        "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {}]} for i in range(1_000)}
        | {"d1000": AGE}
    },
    "references to themselves": {"$ref": "#", "allOf": [{"$ref": "#"}, {"$ref": "#/allOf/1"}]},
    "a huge index": {"allOf": [{"$ref": "#/allOf/" + "9" * 5_000}, AGE]},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_schema_costs_little(schema: Any) -> None:
    started_at = time.thread_time()
    try:
        close_schema(schema)
    except ValueError as error:
        assert str(error) in ("it is nested too deeply", "it combines too many subschemas")
    assert time.thread_time() - started_at < 0.5
