"""Jobs in processes of their own."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.tuning.trainer.conftest import job_spec
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, write_value
from tuning.types import JobSpec

WAIT_S = 300.0  # on a machine that other programs load, too
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
