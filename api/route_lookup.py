"""Finds the Operation of a route before the request reaches the app."""

from collections.abc import Callable
from functools import lru_cache

from flask import Flask
from werkzeug.exceptions import HTTPException

from api.openapi.operation import Operation, operation_of
from api.wsgi_environ import without_root_path

UNDESCRIBED = Operation("")  # of a route that has none
RouteLookup = Callable[[str, str], Operation | None]  # (method, path) -> its Operation; None: no such route


def make_route_lookup(app: Flask, root_path: str = "") -> RouteLookup:
    adapter = app.url_map.bind("")

    @lru_cache(maxsize=64)  # most requests have the same few paths
    def find_operation(method: str, path: str) -> Operation | None:
        try:
            rule, _ = adapter.match(without_root_path(path, root_path), method, return_rule=True)
        except HTTPException:
            return None
        return operation_of(app.view_functions[rule.endpoint]) or UNDESCRIBED

    return find_operation
