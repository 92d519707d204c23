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
WAIT_S = 240.0
NUM_EPOCHS = 20  # long enough for a kill between the first checkpoint and the end
NUM_STEPS = 2 * NUM_EPOCHS


def upload(server: ServerProcess) -> str:
    content = "\n".join(map(json.dumps, ROWS)).encode()
    response = requests.post(
        f"{server.url}/v1/files", data={"purpose": "fine-tune"}, files={"file": ("rows", content)}, timeout=60
    )
    return str(response.json()["id"])


def create(server: ServerProcess) -> str:
    body = {"model": "models/demo", "training_file": upload(server), "seed": 5}
    response = server.post(JOBS, body | {"hyperparameters": {"n_epochs": NUM_EPOCHS, "rehearsal": 0}})
    return str(response.json()["id"])


def get(server: ServerProcess, path: str) -> Any:
    return requests.get(server.url + path, timeout=60).json()


def wait_for(server: ServerProcess, id: str, *statuses: str) -> dict[str, Any]:
    end = time.monotonic() + WAIT_S
    while (job := get(server, f"{JOBS}/{id}"))["status"] not in statuses:
        assert time.monotonic() < end, job
        time.sleep(0.2)
    return dict(job)


def losses(server: ServerProcess, job: dict[str, Any]) -> dict[int, float]:
    """By step."""
    path = f"/v1/files/{job['result_files'][0]}/content"
    table = requests.get(server.url + path, timeout=60).text.splitlines()
    steps = [line.split(",")[:2] for line in table[1:]]
    assert len(dict(steps)) == len(steps), "each step is recorded once"
    return {int(step): float(loss) for step, loss in steps}


def wait_for_checkpoint(server: ServerProcess, id: str) -> str:
    end = time.monotonic() + WAIT_S
    while not (checkpoints := get(server, f"{JOBS}/{id}/checkpoints")["data"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    return str(checkpoints[0]["fine_tuned_model_checkpoint"])


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.system("posix")
def test_a_killed_server_goes_on_with_its_job(tmp_path: Path) -> None:
    """That the losses are those of an uncut job: tests/tuning/trainer/job/test_child.py."""
    flags = ("--tuning-dir", str(tmp_path))
    with serving(*flags) as first:
        id = create(first)
        wait_for_checkpoint(first, id)
        trainers = psutil.Process(first.process.pid).children(recursive=True)
        os.kill(first.process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(trainers, timeout=60)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]
    with serving(*flags) as second:
        job = wait_for(second, id, "succeeded", "failed")
        assert job["status"] == "succeeded", job
        by_step = losses(second, job)
        assert list(by_step) == list(range(1, NUM_STEPS + 1))
        assert by_step[NUM_STEPS] < 0.5 * by_step[1]
        messages = [event["message"] for event in get(second, f"{JOBS}/{id}/events?limit=100")["data"]]
        assert "The server was restarted: the job goes on from its last saved state" in messages
        body = {"model": job["fine_tuned_model"], "prompt": "Who", "max_tokens": 2}
        assert second.post("/v1/completions", body).status_code == 200
