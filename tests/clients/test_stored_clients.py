"""What the real clients of OpenAI and Llama Stack store, they can read again."""

from typing import Any

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow

QUESTION, PARIS = "What is the capital of France?", "The capital of France is Paris."


@pytest.fixture(params=["openai-1", "openai-3"])
def openai_results(request: pytest.FixtureRequest, server: str) -> dict[str, Any]:
    results: dict[str, Any] = run_driver(
        request.param, "drive_stored_openai.py", f"{server}/v1", "models/demo"
    )
    return results


@pytest.fixture
def llama_stack_results(server: str) -> dict[str, Any]:
    results: dict[str, Any] = run_driver(
        "llama-stack-0.2.12", "drive_stored_llama_stack.py", server, "models/demo"
    )
    return results


def test_openais_client_reads_what_it_stored(openai_results: dict[str, Any]) -> None:
    responses, chats = openai_results["responses"], openai_results["chats"]
    assert (responses["text"], responses["is_same"], responses["is_deleted"]) == (PARIS, True, True)
    assert responses["roles"] == ["user", "assistant", "user"]
    assert "ResponseOutputMessage" in responses["item_types"]
    assert chats == {
        "is_listed": True,
        "text": PARIS,
        "messages": [QUESTION],
        "metadata": {"k": "w"},
        "is_deleted": True,
    }


def test_openais_client_polls_and_cancels(openai_results: dict[str, Any]) -> None:
    background = openai_results["background"]
    assert (background["statuses"], background["text"]) == (["queued", "completed"], PARIS)


def test_openais_client_keeps_a_conversation(openai_results: dict[str, Any]) -> None:
    conversations = openai_results["conversations"]
    assert conversations["roles"] == ["user", "user", "assistant"]
    assert conversations["metadata"] == [{"a": "b"}, {"a": "c"}] and conversations["is_deleted"]


def test_llama_stacks_client_reads_what_it_stored(llama_stack_results: dict[str, Any]) -> None:
    chats, responses = llama_stack_results["chats"], llama_stack_results["responses"]
    assert chats == {"is_newest": True, "messages": [QUESTION] * 2, "text": PARIS}
    assert responses == {"is_listed": True, "inputs": [QUESTION] * 2, "text": PARIS}
