"""Jobs in processes of their own: forks of one that has imported the libraries, see forked_main.py.

A fork sends itself a signal at a step, so that no test has to be in time for it.
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tests.servers.forked_main import ForkedProcess
from tests.tuning.trainer.conftest import job_spec
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, write_value
from tuning.trainer.job import child
from tuning.trainer.job.progress import ProgressLog
from tuning.types import JobSpec

WAIT_S = 240.0  # on a machine that other programs load, too
Line = dict[str, Any]


def write_job(folder: Path, model_folder: Path, rows: list[dict[str, Any]], **changes: Any) -> JobSpec:
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = replace(
        job_spec(**changes), model_folder=str(model_folder), training_file=str(folder / "data.jsonl")
    )
    write_value(folder / SPEC_FILE, spec)
    return spec


def chat_rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "messages": [
                {"role": "user", "content": f"{n}?"},
                {"role": "assistant", "content": f"It is {n * n}."},
            ]
        }
        for n in range(count)
    ]


def train_until(folder: Path, step: int, number: signal.Signals) -> int:
    """Train the job in a fork that sends itself the signal behind a step; returns its exit code."""
    return ForkedProcess(train_and_signal, folder, step, number).wait(WAIT_S)


def train_and_signal(folder: Path, step: int, number: signal.Signals) -> None:
    write = ProgressLog.write

    def write_and_signal(log: ProgressLog, type: str, **fields: Any) -> None:
        write(log, type, **fields)
        if type == "step" and fields["step"] == step:
            os.kill(os.getpid(), number)

    ProgressLog.write = write_and_signal  # type: ignore[method-assign]
    train(folder)


def train_with_memory(folder: Path, num_bytes: int) -> int:
    """Train the job in a fork that may allocate so much; returns its exit code."""
    return ForkedProcess(limit_memory_and_train, folder, num_bytes).wait(WAIT_S)


def limit_memory_and_train(folder: Path, num_bytes: int) -> None:
    import resource  # which Windows lacks

    sizes = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    limit = int(sizes["VmData"].split()[0]) * 1024 + num_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    train(folder)


def train(folder: Path) -> None:
    """The whole life of a trainer's process, whose output goes to a file."""
    torch.set_num_threads(1)
    with (folder / "output.txt").open("ab") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    sys.exit(child.main([str(folder)]))


def lines_of(folder: Path) -> list[Line]:
    path = folder / PROGRESS_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def of_type(folder: Path, name: str) -> list[Line]:
    return [line for line in lines_of(folder) if line["type"] == name]


def wait_for_step(folder: Path, step: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while not any(line["step"] >= step for line in of_type(folder, "step")):
        assert time.monotonic() < deadline, lines_of(folder)
        time.sleep(0.02)
