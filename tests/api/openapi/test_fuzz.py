"""Requests generated from the OpenAPI document: responses match the document, and none is a 5xx."""

from copy import deepcopy

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api import create_app
from inference.metrics import Metrics
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# Paths whose views are tested under another path.
EXCLUDED_PATHS = (
    "^/(inference|post_training|oai|alpha|passthrough|batch.inference|v1alpha|v1beta)"
    "|^/v1/(openai|batch)|^/vertex"
)
# Paths whose bodies have the fields of another path's, of which all values at their limits are sent there.
SAME_FIELDS = (
    "/chat_tokenize",
    "/invocations",
    "/v1/responses/input_tokens",
    "/v1/post-training/preference-optimize",
    "/v1/inference/batch-chat-completion",
    "/v1/inference/batch-completion",
    "/generate_stream",
    "/",
    "/api/v1/forward",
)
app = create_app(make_models(FakeBackend(pace_s=0.0)), ServerSettings(), Metrics())
schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
schema.config.seed = 1  # the same cases in every run
DRAWN_CASES = deepcopy(schema.config)
DRAWN_CASES.phases.update(phases=["examples", "fuzzing"])
OPERATIONS = [result.ok() for result in schema.exclude(path_regex=EXCLUDED_PATHS).get_all_operations()]


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def validate(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_responses_match_the_document(operation: APIOperation) -> None:
    """Generates the cases here: `schema.parametrize` does while tests are collected, in every process."""
    load_all_checks()
    build_operation_test(
        config=DRAWN_CASES if operation.path in SAME_FIELDS else schema.config,
        operation=operation,
        test_func=validate,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()
