"""A server whose model is shared by two processes: it answers, reports a dead rank, exits cleanly."""

import time
from pathlib import Path

import psutil
import pytest
import requests

from tests.servers.serving import ServerProcess, serving
from tests.tiny_models import tiny

QUESTION = {"model": "m", "prompt": "The capital of France", "max_tokens": 12, "temperature": 0}
FLAGS = ("--served-names", "m", "--device", "cpu", "--dtype", "float32", "--log-level", "warning")


def complete(server: ServerProcess) -> str:
    response = server.post("/v1/completions", QUESTION)
    assert response.ok, response.text
    return str(response.json()["choices"][0]["text"])


@pytest.mark.slow
def test_two_processes_share_a_model(tmp_path: Path) -> None:
    folder = str(tiny.llama(tmp_path))
    with serving(*FLAGS, model=folder) as server:
        alone = complete(server)
    with serving(*FLAGS, "--num-shard", "2", model=folder) as server:
        assert complete(server) == alone
        family = psutil.Process(server.process.pid).children(recursive=True)
        ranks = [child for child in family if "spawn_main" in "".join(child.cmdline())]
        assert len(ranks) == 1
        ranks[0].kill()
        assert "rank 1 has ended with exit code -9: the server must be restarted" in wait_until_unready(
            server
        )
        refused = server.post("/v1/completions", QUESTION)
        assert refused.status_code == 503 and "rank 1 has ended" in refused.text
    assert server.process.returncode == 0
    assert not psutil.wait_procs(family, timeout=60)[1], "a process was left behind"


def wait_until_unready(server: ServerProcess, timeout_s: float = 120) -> str:
    """The response of the readiness check once the server is no longer ready."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        response = requests.get(f"{server.url}/health/ready", timeout=60)
        if not response.ok:
            return response.text
        time.sleep(0.1)
    raise AssertionError("the server still says that it is ready")
