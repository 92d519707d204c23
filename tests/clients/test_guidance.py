"""guidance's models for vLLM and SGLang against this server: every answer matches its program.

The model for vLLM sends guided_grammar and structured_outputs at once, for any release of vLLM.
"""

import json
import re
from typing import Any

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow


@pytest.fixture
def results(server: str) -> dict[str, Any]:
    return run_driver("guidance-0.3", "drive_guidance.py", f"{server}/v1", "models/demo")


@pytest.mark.parametrize("model_class", ["vllm", "sglang"])
def test_an_answer_matches_its_program(results: dict[str, Any], model_class: str) -> None:
    texts = {name: results[f"{model_class} {name}"]["text"] for name in ("regex", "choice", "schema")}
    assert re.fullmatch("[ab]{3}", texts["regex"])
    assert texts["choice"] in ("yes", "no")
    assert json.loads(texts["schema"]).keys() == {"capital"}
    mixed = results[f"{model_class} mixed"]
    assert mixed["text"] in ("yes", "no") and re.fullmatch(" [0-9]{2}", mixed["digits"])
