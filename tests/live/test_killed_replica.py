"""An answer outlives its server: one of two real replicas is killed in mid-stream."""

import json
import os
import signal
from collections.abc import Iterator

import pytest
import requests

from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

FLAGS = ("--tuning-dir", "off", "--responses-store", "off")
QUESTION = {
    "model": "models/demo",
    "messages": [{"role": "user", "content": "Tell me a story about a fox."}],
    "max_tokens": 600,
    "ignore_eos": True,
    "stream": True,
    "return_token_ids": True,
}
BODIES = (QUESTION | {"temperature": 0}, QUESTION | {"temperature": 1.0, "seed": 7}) * 2
NUM_TOKENS_BEFORE = 5


def open_stream(server: ServerProcess, body: dict[str, object]) -> requests.Response:
    return server.post("/v1/chat/completions", body, stream=True)


def read_choices(response: requests.Response) -> Iterator[tuple[str, list[int], str | None]]:
    """The text, the token ids and the finish reason of each chunk."""
    for line in response.iter_lines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield (
                    choice["delta"].get("content") or "",
                    choice.get("token_ids") or [],
                    choice["finish_reason"],
                )


def test_answers_of_a_killed_replica_go_on_at_another_one(server: ServerProcess) -> None:
    expected = [list(read_choices(open_stream(server, body))) for body in BODIES]
    with serving(*FLAGS) as victim:
        members = [f"hearth:{server.url}", f"hearth:{victim.url}"]
        models = json.dumps([{"base_model": "models/demo", "members": members}])
        with serving("--models", models, *FLAGS) as front:
            streams = [open_stream(front, body) for body in BODIES]
            names = {stream.headers["X-Hearth-Member"] for stream in streams}
            assert names == {"models/demo-1", "models/demo-2"}
            choices = [read_choices(stream) for stream in streams]
            received = [[next(each) for _ in range(NUM_TOKENS_BEFORE)] for each in choices]
            os.kill(victim.process.pid, signal.SIGKILL)
            assert [[*start, *rest] for start, rest in zip(received, choices, strict=True)] == expected
            metrics = requests.get(f"{front.url}/metrics", timeout=60).text
            assert 'hearth_upstream_retries_total{model="models/demo",reason="resume"}' in metrics
