"""The app's routes as an OpenAPI 3.1 document, from the operations that stand beside them.

Knows Flask's rules and the specification; no dialect. https://spec.openapis.org/oas/v3.1.0
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, get_args

import msgspec
from flask import Flask
from werkzeug.routing import Rule

from api.encode import MIMETYPE
from api.operation import Operation, of
from api.stream import SSE

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
SCHEMAS = "#/components/schemas/"
KEY = {"type": "http", "scheme": "bearer", "description": "One of the server's API_KEYS, where it has any."}

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
EVENT: Json = {"type": "object", "properties": {"event": TEXT, "data": TEXT}, "required": ["data"]}
STREAMED = {SSE.mimetype: EVENT}


def document(app: Flask, title: str, version: str, about: str, tags: Mapping[str, str]) -> Json:
    """Every route that has an operation; those of one path stand together, in the order of the paths.

    tags  blueprint → what its routes are headed with, in the order to show them
    """
    routes = sorted(described(app), key=lambda route: (route[0].rule, route[1]))
    schemas = Schemas(operation for _, _, operation in routes)
    paths: dict[str, Json] = {}
    for rule, method, operation in routes:
        path = PARAMETER.sub(r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = told(rule, method, operation, schemas, tags)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": about},
        "tags": [{"name": name} for name in tags.values()],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": {"key": KEY}},
        "security": [{}, {"key": []}],
    }


def described(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    for rule in app.url_map.iter_rules():
        operation = of(app.view_functions[rule.endpoint])
        if operation:
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield rule, method, operation


class Schemas:
    """The JSON schemas of all types that the operations name; structs are components of the document."""

    def __init__(self, operations: Iterator[Operation]) -> None:
        named = ((each.body, each.answer, each.error) for each in operations)
        self._types = [one for types in named for type in types if type is not None for one in members(type)]
        schemas, self.components = msgspec.json.schema_components(
            self._types, ref_template=SCHEMAS + "{name}"
        )
        self._schemas = list(schemas)

    def of(self, type: Any) -> Json:
        schemas = [self._schemas[self._types.index(one)] for one in members(type)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def members(type: Any) -> tuple[Any, ...]:
    """What a type is a union of. Two dialects may share a path; msgspec takes no union of their structs."""
    return get_args(type) if isinstance(type, UnionType) else (type,)


def told(rule: Rule, method: str, operation: Operation, schemas: Schemas, tags: Mapping[str, str]) -> Json:
    failure = {"description": "An error", "content": {MIMETYPE: {"schema": schemas.of(operation.error)}}}
    page: Json = {
        "operationId": f"{method.lower()} {rule.rule}",
        "tags": [tags[rule.endpoint.partition(".")[0]]],
        "summary": operation.summary,
        "parameters": [*in_path(rule), *in_query(operation)],
        "responses": {
            "200": good(operation, schemas),
            "4XX": failure,
            "5XX": failure,
        },
    }
    if operation.about:
        page["description"] = inspect.cleandoc(operation.about)
    if operation.body is not None:
        content = {MIMETYPE: {"schema": schemas.of(operation.body)}}
        page["requestBody"] = {"required": True, "content": content}
    return page


def good(operation: Operation, schemas: Schemas) -> Json:
    content: Json = {media: {"schema": STREAMED.get(media, TEXT)} for media in operation.stream}
    if operation.media:
        content[operation.media] = {"schema": TEXT}
    elif operation.answer is not None:
        content[MIMETYPE] = {"schema": schemas.of(operation.answer)}
    return {"description": "The answer", **({"content": content} if content else {})}


def in_path(rule: Rule) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in PARAMETER.findall(rule.rule)
    ]


def in_query(operation: Operation) -> list[Json]:
    return [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}, "description": meaning}
        for name, meaning in operation.query.items()
    ]
