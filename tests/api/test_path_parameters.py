"""A name in a path, however it is encoded, is refused in the words of the route's dialect."""

import re

import pytest
from flask import Flask
from werkzeug.routing import Rule

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tuning.service import TuningService

ODD_NAMES = {
    "a null byte": "%00",
    "a line break": "a%0A",
    "lines": "a%0D%0AX-Forged:%20b",
    "a slash": "a%2Fb",
    "a folder above": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "overlong UTF-8": "%C0%AF",
    "a surrogate": "%ED%A0%80",
    "a percent sign": "%25",
    "an incomplete escape": "%",
    "a question mark": "a%3Fb",
    "8 KiB": "a" * 8192,
}
UNKNOWN_NAME = "no-such-name"


@pytest.fixture
def app_with_all_routes(tuning: TuningService) -> Flask:
    return create_app(
        make_models(FakeBackend()), ServerSettings(has_link=True), services=Services(tuning=tuning)
    )


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_an_odd_name_in_a_path_gets_the_error_format_of_the_route(
    app_with_all_routes: Flask, name: str
) -> None:
    client = app_with_all_routes.test_client()

    def refuse(rule: Rule, method: str, name: str) -> tuple[int, list[str]]:
        response = client.open(
            re.sub("<[^>]*>", name, rule.rule), method=method, json=None if method == "GET" else {}
        )
        assert len(response.data) < 2000, (method, rule.rule)
        return response.status_code // 100, sorted(response.json)

    for rule in app_with_all_routes.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"} if rule.arguments else ():
            assert refuse(rule, method, name) == refuse(rule, method, UNKNOWN_NAME), (method, rule.rule)
