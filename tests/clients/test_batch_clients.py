"""OpenAI's real clients run batches."""

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("environment", ["openai-1", "openai-3"])
def test_openais_client_runs_a_batch(server: str, environment: str) -> None:
    assert run_driver(environment, "drive_batches.py", f"{server}/v1", "models/demo") == {
        "statuses": ["completed", "failed"],
        "counts": {"total": 2, "completed": 1, "failed": 1},
        "texts": ["The capital of France is Paris."],
        "failed": [["1", 400]],
        "errors": [[2, "streaming_unsupported"]],
        "is_listed": True,
        "refuses_cancel": True,
    }
