"""A client that vanishes in the middle of a batch of several requests: nothing waits for it, over HTTP."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from settings.groups import ServerSettings
from tests.api.tinker.pass_bodies import JSON_PASS
from tests.api.tinker.scripted_runs import service_of
from tests.clients.conftest import running
from tests.fakes.fake_backend import FakeBackend
from tests.tuning.runs.conftest import RunClient, RunServers
from tuning.runs import run_queue

GAP_S = 0.5
PATH = "/api/v1/forward_backward"


def pass_body(run_id: str, seq_id: int) -> dict[str, Any]:
    return {"model_id": run_id, "seq_id": seq_id, "forward_backward_input": JSON_PASS}


def send(url: str, run_id: str, seq_id: int) -> str:
    """The id of the pass's promise."""
    reply = requests.post(url + PATH, json=pass_body(run_id, seq_id), timeout=60)
    return str(reply.json()["request_id"])


def result_of(url: str, request_id: str) -> Any:
    return requests.post(f"{url}/api/v1/retrieve_future", json={"request_id": request_id}, timeout=240).json()


def vanish_within(url: str, body: dict[str, Any]) -> None:
    """Send half of a body, and close the connection."""
    address, content = urlsplit(url), json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode())
        connection.sendall(content[: len(content) // 2])


def test_a_client_that_vanishes_within_a_batch_stops_no_run(
    servers: RunServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends the first request of a batch last, as the SDK does, and vanishes within it."""
    runs = servers.open()
    client = RunClient(runs)
    broken, other, alone = (client.create_run(number) for number in range(3))
    with running(FakeBackend(), ServerSettings(), tuning=service_of(runs)) as url:
        expected = result_of(url, send(url, alone, 1))["metrics"]
        waiting = [send(url, broken, seq_id) for seq_id in (2, 3)]
        vanish_within(url, pass_body(broken, 1))
        monkeypatch.setattr(run_queue, "GAP_S", GAP_S)  # only now: both requests wait for the first
        assert result_of(url, send(url, other, 1))["metrics"] == expected
        for request_id in waiting:
            failure = result_of(url, request_id)
            assert failure["category"] == "user" and "seq_id 1 has not arrived" in failure["error"]
        assert result_of(url, send(url, broken, 4))["metrics"] == expected, "no pass of the batch counts"
        assert result_of(url, send(url, other, 2))["metrics"] == expected
