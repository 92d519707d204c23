"""The tests make thousands of apps, each with the same 300 routes: a process parses each route once."""

from copy import copy
from typing import Any

from werkzeug.routing import Rule

from api.url_rule import UrlRule

PARSED = ("_parts", "_trace", "_converters", "arguments")  # what Rule.compile sets, without builders of URLs


def remember() -> None:
    parsed_rules: dict[tuple[object, ...], dict[str, Any]] = {}

    def compile_once(rule: UrlRule) -> None:
        assert rule.map is not None
        converters = tuple(rule.map.converters.items())
        key = (rule.rule, rule.subdomain, rule.merge_slashes, *converters)
        if key not in parsed_rules:
            Rule.compile(rule)
            parsed_rules[key] = {name: copy(getattr(rule, name)) for name in PARSED}
        for name, value in parsed_rules[key].items():
            setattr(rule, name, copy(value))
        rule._build = rule._compile_builder(False).__get__(rule, None)
        rule._build_unknown = rule._compile_builder(True).__get__(rule, None)

    UrlRule.compile = compile_once  # type: ignore[method-assign]
