"""Requests generated from the OpenAPI document: responses match the document, and none is a 5xx."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api import create_app
from inference.metrics import Metrics
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend, make_models

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# Paths whose views are tested under another path.
EXCLUDED_PATHS = "^/(alpha|passthrough|batch.inference|v1alpha|v1beta|v1/(openai|batch))|^/vertex"
app = create_app(make_models(FakeBackend(pace_s=0.0)), ServerSettings(), Metrics())
schema = schemathesis.openapi.from_wsgi("/openapi.json", app)


@pytest.mark.slow
@schema.exclude(path_regex=EXCLUDED_PATHS).parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_responses_match_the_document(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)
