"""Rules match as werkzeug's do, and compile nothing that builds URLs until one is built."""

import pytest
from flask import Flask
from werkzeug.routing import Map, Rule

from api.url_rule import UrlRule


def test_the_app_compiles_no_code_that_builds_urls(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {type(rule) for rule in app.url_map.iter_rules()} == {UrlRule}
    monkeypatch.setattr(Rule, "_get_func_code", None)
    Map([UrlRule("/models/<name>", endpoint="models")])
    with pytest.raises(TypeError):
        Map([Rule("/models/<name>", endpoint="models")])


@pytest.mark.parametrize("values", [{"name": "a b"}, {"name": "é", "page": 2}])
def test_a_url_can_be_built(values: dict[str, object]) -> None:
    built, expected = (
        Map([rule("/models/<name>", endpoint="models")]).bind("x").build("models", values)
        for rule in (UrlRule, Rule)
    )
    assert built == expected
