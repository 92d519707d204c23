"""Batches on the real server: answers of the model, a kill in between, and answers beside them."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from scripts.loopback import free_port
from tests.api.batches.batch_server import CHATS, as_line
from tests.servers.forked_main import ForkedMain
from tests.servers.serving import wait_until_ready
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.slow

QUESTION, PARIS = "What is the capital of France?", "The capital of France is Paris."
NUM_REQUESTS = 120


@contextmanager
def server_on(folder: Path, end_signal: signal.Signals) -> Iterator[str]:
    """The URL of a server that gets the signal at the end."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    arguments = ["--port", str(port), "--tuning-dir", str(folder)]
    process = ForkedMain(arguments, {**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        wait_until_ready(url, process)
        yield url
    finally:
        process.send_signal(end_signal)
        process.wait(timeout=TIMEOUT_S)


def request_line(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION if number == 0 else f"Tell story {number}."}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 100}
    if number:
        body |= {"ignore_eos": True}
    return {"custom_id": str(number), "method": "POST", "url": CHATS, "body": body}


def create(url: str) -> str:
    content = b"".join(as_line(request_line(number)) for number in range(NUM_REQUESTS))
    files = {"file": ("requests.jsonl", content)}
    file = requests.post(f"{url}/v1/files", files=files, data={"purpose": "batch"}, timeout=TIMEOUT_S)
    body = {"input_file_id": file.json()["id"], "endpoint": CHATS, "completion_window": "24h"}
    batch = requests.post(f"{url}/v1/batches", json=body, timeout=TIMEOUT_S).json()
    return str(batch["id"])


def until(url: str, id: str, num_completed: int) -> Any:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        batch = requests.get(f"{url}/v1/batches/{id}", timeout=TIMEOUT_S).json()
        has_ended = batch["status"] == "completed" or num_completed < NUM_REQUESTS
        if batch["request_counts"]["completed"] >= num_completed and has_ended:
            return batch
        time.sleep(0.01)
    raise AssertionError(batch)


@pytest.mark.parametrize("end_signal", [signal.SIGKILL, signal.SIGTERM])
def test_a_batch_goes_on_where_its_server_ended(tmp_path: Path, end_signal: signal.Signals) -> None:
    with server_on(tmp_path, end_signal) as url:
        id = create(url)
        until(url, id, 5)
    output = tmp_path / "batches" / id / "output.jsonl"
    first_answers = output.read_bytes().splitlines()[:5]
    with server_on(tmp_path, signal.SIGTERM) as url:
        batch = until(url, id, NUM_REQUESTS)
        assert batch["request_counts"] == {"total": NUM_REQUESTS, "completed": NUM_REQUESTS, "failed": 0}
        content = requests.get(f"{url}/v1/files/{batch['output_file_id']}/content", timeout=TIMEOUT_S)
    lines = content.content.splitlines()
    assert lines[:5] == first_answers and len(lines) == NUM_REQUESTS
    (answer_to_question,) = [line for line in lines if b'"custom_id":"0"' in line]
    assert PARIS.encode() in answer_to_question


def test_a_chat_does_not_wait_for_a_batch(tmp_path: Path) -> None:
    with server_on(tmp_path, signal.SIGTERM) as url:
        id = create(url)
        until(url, id, 1)
        body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
        response = requests.post(f"{url}{CHATS}", json=body, timeout=TIMEOUT_S).json()
        assert response["choices"][0]["message"]["content"] == PARIS
        batch = requests.get(f"{url}/v1/batches/{id}", timeout=TIMEOUT_S).json()
        assert batch["status"] == "in_progress"
