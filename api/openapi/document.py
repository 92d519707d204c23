"""Builds an OpenAPI 3.1 document from the operations that are attached to the app's views.

Knows Flask's rules and the specification, https://spec.openapis.org/oas/v3.1.0. Does not know any dialect.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flask import Flask
from werkzeug.routing import Rule

from api.body.json_body import MIMETYPE
from api.openapi.operation import Operation, operation_of
from api.openapi.schemas import Json, Schemas
from api.response import SSE

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
KEY = {"type": "http", "scheme": "bearer", "description": "A key of the setting API_KEYS, if any is set."}

REFUSALS = "refusals"
FORM_DATA = "multipart/form-data"

TEXT: Json = {"type": "string"}
EVENT: Json = {"type": "object", "properties": {"event": TEXT, "data": TEXT}, "required": ["data"]}
EVENT_SCHEMAS = {SSE.mimetype: EVENT}


class Tag(NamedTuple):
    name: str
    description: str


def document(
    app: Flask,
    title: str,
    version: str,
    description: str,
    tags: Mapping[str, Tag],
    first_paths: Sequence[str],
) -> Json:
    """The document of all routes with an operation: `first_paths`, then the rest by path, then refusing ones.

    tags  blueprint name -> tag of its routes, in display order; REFUSALS -> tag of routes that always refuse
    """

    def position(route: tuple[Rule, str, Operation]) -> tuple[bool, int, str, str]:
        rule, method, operation = route
        rank = first_paths.index(rule.rule) if rule.rule in first_paths else len(first_paths)
        return operation.refuses, rank, rule.rule, method

    routes = sorted(iter_operations(app), key=position)
    schemas = Schemas(operation for _, _, operation in routes)
    paths: dict[str, Json] = {}
    for rule, method, operation in routes:
        path = PARAMETER.sub(r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = operation_object(rule, method, operation, schemas, tags)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "tags": [tag._asdict() for tag in tags.values()],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": {"key": KEY}},
        "security": [{}, {"key": []}],
    }


def iter_operations(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    for rule in app.url_map.iter_rules():
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation:
            for method in listed_methods(rule):
                yield rule, method, operation


def listed_methods(rule: Rule) -> list[str]:
    """The methods of a route, without those that Flask adds to every route."""
    return sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})


def operation_object(
    rule: Rule, method: str, operation: Operation, schemas: Schemas, tags: Mapping[str, Tag]
) -> Json:
    tag = tags[REFUSALS if operation.refuses else rule.endpoint.partition(".")[0]]
    operation_json: Json = {
        "operationId": f"{method.lower()} {rule.rule}",
        "tags": [tag.name],
        "summary": operation.summary,
        "parameters": [*path_parameters(rule), *query_parameters(operation)],
        "responses": responses(operation, schemas),
    }
    if operation.description:
        operation_json["description"] = inspect.cleandoc(operation.description)
    for media_type, kind in ((MIMETYPE, operation.body), (FORM_DATA, operation.form_data)):
        if kind is not None:
            content = {media_type: {"schema": schemas.schema_of(kind)}}
            operation_json["requestBody"] = {"required": True, "content": content}
    return operation_json


def responses(operation: Operation, schemas: Schemas) -> Json:
    error = {"description": "An error", "content": {MIMETYPE: {"schema": schemas.schema_of(operation.error)}}}
    success = {} if operation.refuses else {"200": success_response(operation, schemas)}
    return {**success, "4XX": error, "5XX": error}


def success_response(operation: Operation, schemas: Schemas) -> Json:
    content: Json = {media: {"schema": EVENT_SCHEMAS.get(media, TEXT)} for media in operation.stream}
    if operation.media_type:
        content[operation.media_type] = {"schema": TEXT}
    elif operation.response is not None:
        content[MIMETYPE] = {"schema": schemas.schema_of(operation.response)}
    return {"description": "The response", **({"content": content} if content else {})}


def path_parameters(rule: Rule) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in PARAMETER.findall(rule.rule)
    ]


def query_parameters(operation: Operation) -> list[Json]:
    return [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}, "description": meaning}
        for name, meaning in operation.query.items()
    ]
