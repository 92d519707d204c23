"""Stored responses on the real server, also after it was killed."""

import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from scripts.loopback import free_port
from tests.servers.forked_main import ForkedMain
from tests.servers.serving import ServerProcess, serving, wait_until_ready

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"


@contextmanager
def killed_at_the_end(store: Path) -> Iterator[str]:
    """The URL of a server with this store that gets SIGKILL at the end."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    arguments = ["--port", str(port), "--responses-store", str(store)]
    process = ForkedMain(arguments, {**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        wait_until_ready(url, process)
        yield url
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)


def post(url: str, **fields: Any) -> Any:
    response = requests.post(f"{url}/v1/responses", json={"input": QUESTION, **fields}, timeout=60)
    assert response.ok, response.text
    return response.json()


def test_what_was_answered_is_there_after_the_server_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "responses.db"
    with killed_at_the_end(file) as url:
        first = post(url, temperature=0)
        running = post(url, background=True, max_output_tokens=1500)
        body = {"input": "And of Spain?", "previous_response_id": first["id"], "stream": True}
        with requests.post(f"{url}/v1/responses", json=body, stream=True, timeout=60) as response:
            lines = [line for line in response.iter_lines() if line.startswith(b"data: ")]
        last = json.loads(lines[-1].removeprefix(b"data: "))["response"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with serving("--responses-store", str(file)) as server:
        assert requests.get(f"{server.url}/v1/responses/{first['id']}", timeout=60).json() == first
        assert requests.get(f"{server.url}/v1/responses/{last['id']}", timeout=60).json() == last
        interrupted = requests.get(f"{server.url}/v1/responses/{running['id']}", timeout=60).json()
        assert interrupted["status"] in ("failed", "completed", "incomplete")
        reference = {"type": "item_reference", "id": last["output"][0]["id"]}
        user = {"role": "user", "content": "Thanks"}
        third = post(server.url, input=[reference, user], previous_response_id=first["id"])
        listed = requests.get(f"{server.url}/v1/responses/{third['id']}/input_items", timeout=60).json()
        assert len(listed["data"]) == 4


def test_a_continued_chat_has_the_tokens_of_the_whole_conversation(server: ServerProcess) -> None:
    first = post(server.url, temperature=0)
    second = post(server.url, input="And of Spain?", previous_response_id=first["id"], temperature=0)
    conversation = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": first["output"][0]["content"][0]["text"]},
        {"role": "user", "content": "And of Spain?"},
    ]
    resent = post(server.url, input=conversation, temperature=0)
    assert second["usage"]["input_tokens"] == resent["usage"]["input_tokens"]
    assert second["output"][0]["content"] == resent["output"][0]["content"]


def test_a_response_in_the_background_ends_without_its_client(server: ServerProcess) -> None:
    id = post(server.url, background=True, temperature=0)["id"]
    end = time.monotonic() + 120
    while time.monotonic() < end:
        response = requests.get(f"{server.url}/v1/responses/{id}", timeout=60).json()
        if response["status"] not in ("queued", "in_progress"):
            break
        time.sleep(0.05)
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "The capital of France is Paris."


def test_a_client_that_hangs_up_leaves_nothing_stored(server: ServerProcess) -> None:
    body = {"input": "Count from 1 to 100.", "stream": True, "max_output_tokens": 1500, "ignore_eos": True}
    with requests.post(f"{server.url}/v1/responses", json=body, stream=True, timeout=60) as response:
        line = next(line for line in response.iter_lines() if line.startswith(b"data: "))
        id = json.loads(line.removeprefix(b"data: "))["response"]["id"]
    end = time.monotonic() + 120
    while requests.get(f"{server.url}/load", timeout=60).json()["server_load"]:
        assert time.monotonic() < end, "the answer still runs"
        time.sleep(0.05)
    missing = requests.get(f"{server.url}/v1/responses/{id}", timeout=60)
    assert missing.status_code == 404
