"""The real trainer on models/demo: a server that is killed in the middle loses nothing."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

JOBS = "/v1/fine_tuning/jobs"
ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"Who is {number}?"},
            {"role": "assistant", "content": f"Number {number}."},
        ]
    }
    for number in range(6)
]
WAIT_S = 200.0


def upload(server: ServerProcess) -> str:
    content = "\n".join(map(json.dumps, ROWS)).encode()
    response = requests.post(
        f"{server.url}/v1/files", data={"purpose": "fine-tune"}, files={"file": ("rows", content)}, timeout=60
    )
    return str(response.json()["id"])


def create(server: ServerProcess) -> str:
    body = {"model": "models/demo", "training_file": upload(server), "seed": 5}
    response = server.post(JOBS, body | {"hyperparameters": {"n_epochs": 12, "rehearsal": 0}})
    return str(response.json()["id"])


def get(server: ServerProcess, path: str) -> Any:
    return requests.get(server.url + path, timeout=60).json()


def wait_for(server: ServerProcess, id: str, *statuses: str) -> dict[str, Any]:
    end = time.monotonic() + WAIT_S
    while (job := get(server, f"{JOBS}/{id}"))["status"] not in statuses:
        assert time.monotonic() < end, job
        time.sleep(0.2)
    return dict(job)


def losses(server: ServerProcess, job: dict[str, Any]) -> list[float]:
    path = f"/v1/files/{job['result_files'][0]}/content"
    table = requests.get(server.url + path, timeout=60).text.splitlines()
    return [float(line.split(",")[1]) for line in table[1:]]


def wait_for_checkpoint(server: ServerProcess, id: str) -> str:
    end = time.monotonic() + WAIT_S
    while not (checkpoints := get(server, f"{JOBS}/{id}/checkpoints")["data"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    return str(checkpoints[0]["fine_tuned_model_checkpoint"])


@pytest.mark.system("posix")
def test_a_killed_server_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    flags = ("--tuning-dir", str(tmp_path))
    with serving(*flags) as first:
        expected = losses(first, wait_for(first, create(first), "succeeded"))
        id = create(first)
        wait_for_checkpoint(first, id)
        trainers = psutil.Process(first.process.pid).children(recursive=True)
        os.kill(first.process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(trainers, timeout=5)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]
    with serving(*flags) as second:
        job = wait_for(second, id, "succeeded", "failed")
        assert job["status"] == "succeeded", job
        assert losses(second, job) == pytest.approx(expected, abs=1e-4)
        messages = [event["message"] for event in get(second, f"{JOBS}/{id}/events?limit=100")["data"]]
        assert "The server was restarted: the job goes on from its last saved state" in messages
        body = {"model": job["fine_tuned_model"], "prompt": "Who", "max_tokens": 2}
        assert second.post("/v1/completions", body).status_code == 200
