"""The document against the routes: whatever it allows is answered as it says, and nothing makes a 5xx."""

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
from api.settings import AppSettings
from inference.metrics import Metrics
from tests.fake_backend import FakeBackend

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# The same views stand at other paths too; and what is not done here answers 501, which is a server error.
MOUNTED_TWICE = "^/(alpha|passthrough|batch.inference|v1/(openai|batch))|post.training|^/vertex"
app = create_app(FakeBackend(pace_s=0.0), AppSettings(), Metrics())
schema = schemathesis.openapi.from_wsgi("/openapi.json", app)


@pytest.mark.slow
@schema.exclude(path_regex=MOUNTED_TWICE).parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_document_allows_is_answered_as_it_says(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)
