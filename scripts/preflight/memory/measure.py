"""Starts a server, sends it a full batch, and compares the memory it uses with the memory it predicted.

Knows processes and HTTP; does not know how memory is predicted.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from inference.process.memory.rss import resident_memory
from scripts.bench.load import Request
from scripts.bench.server import ANSWER_TIMEOUT_S, MODEL_NAME, ROOT
from scripts.loopback import HOST, free_port, wait_until_ready
from scripts.preflight.memory.cases import MemoryCase

READY_TIMEOUT_S, REPORT_TIMEOUT_S, POLL_S = 900, 20, 0.1  # a first start of 7 B took 391 s of a busy machine
# An answer has EXTRA_ANSWER_TOKENS tokens, plus one for each STEP_TOKENS prompt tokens of the batch.
# The first row therefore still decodes when the last prompt is prefilled.
# The answer of an encoder-decoder model is as long as its prompt.
EXTRA_ANSWER_TOKENS, STEP_TOKENS = 8, 256
# Its grammar needs a table of the vocabulary, which stays in memory.
WITH_GRAMMAR = {"prompt": [300], "max_tokens": 1, "guided_json": {"type": "object"}}
READY_TITLE, FULL_BATCH_TITLE = "memory, ready", "memory, first full batch"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Bytes, and the relative error of the predicted bytes."""

    predicted: int
    actual: int

    @property
    def error(self) -> float:
        return self.predicted / self.actual - 1


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """Predictions compared with measurements.

    loading  on a CPU, peak RAM until the server is ready; on a GPU, VRAM when the model is ready
    serving  on a CPU, peak RAM of the process by the kernel's count; on a GPU, VRAM after the full batch
    terms    every term of the server's own reports
    """

    loading: Prediction
    serving: Prediction
    terms: dict[str, Prediction]


def measure_server(case: MemoryCase, model: Path, scratch: Path) -> MeasuredMemory:
    """Raises OSError, TimeoutError or subprocess.SubprocessError if the server fails."""
    with serving(case, model, scratch) as (process, port, output_file):
        ready = read_report(output_file, READY_TITLE, READY_TIMEOUT_S, process)
        base = f"http://{HOST}:{port}"
        complete(base, WITH_GRAMMAR)
        send_batch(base, make_load(case, model))
        full_batch = read_report(output_file, FULL_BATCH_TITLE, REPORT_TIMEOUT_S, process)
        peak = resident_memory(process.pid).peak
    if "GPU" in full_batch:
        return MeasuredMemory(ready["GPU ready"], full_batch["GPU"], ready | full_batch)
    return MeasuredMemory(
        ready["RAM loading"], Prediction(full_batch["RAM"].predicted, peak), ready | full_batch
    )


@contextmanager
def serving(
    case: MemoryCase, model: Path, scratch: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    port, output_file = free_port(), scratch / "out"
    flags = {"model": str(model), "port": str(port), "served-names": MODEL_NAME, "log-level": "warning"}
    flags |= {"max-sequences": str(case.rows), "context": str(case.context)} | dict(case.settings)
    command = [sys.executable, str(ROOT / "main.py"), "--json-output"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with output_file.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.DEVNULL)
    try:
        if not wait_until_ready(f"http://{HOST}:{port}/health/ready", process, READY_TIMEOUT_S):
            raise TimeoutError(f"not ready within {READY_TIMEOUT_S} s, exit code {process.poll()}")
        yield process, port, output_file
    finally:
        process.terminate()
        process.wait(timeout=60)


def read_report(
    output_file: Path, title: str, timeout_s: float, process: subprocess.Popen[bytes]
) -> dict[str, Prediction]:
    """The server's report with this title, by term."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        for line in output_file.read_text().splitlines():
            if (
                line.startswith("{")
                and line.endswith("}")
                and (report := json.loads(line)).get("report") == title
            ):
                return {term: Prediction(**values) for term, values in report["terms"].items()}
        time.sleep(POLL_S)
    raise TimeoutError(f"the server has not reported {title!r}")


def send_batch(base: str, rows: Sequence[Request]) -> None:
    """Send all rows in one request: a step computes as many tokens on a busy machine as on an idle one.

    Raises OSError.
    """
    body = {
        "prompt": [row.ids for row in rows],
        "max_tokens": rows[0].num_tokens,
        "ignore_eos": True,
        "temperature": 0,
    }
    num_tokens = complete(base, body)
    assert num_tokens == sum(row.num_tokens for row in rows), num_tokens


def complete(base: str, body: Mapping[str, Any]) -> int:
    """The number of tokens of the answers. Raises OSError."""
    headers, data = {"Content-Type": "application/json"}, json.dumps({"model": MODEL_NAME, **body}).encode()
    request = urllib.request.Request(f"{base}/v1/completions", data, headers)
    with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as response:
        num_tokens: int = json.load(response)["usage"]["completion_tokens"]
    return num_tokens


def make_load(case: MemoryCase, model: Path) -> list[Request]:
    """Requests that fill every row to the full context. The prompts differ, so that no pages are shared."""
    config = json.loads((model / "config.json").read_text()) if model.is_dir() else {}
    is_encoder_decoder = config.get("is_encoder_decoder", False)
    num_new_tokens = (
        case.context - 2
        if is_encoder_decoder
        else EXTRA_ANSWER_TOKENS + case.rows * case.context // STEP_TOKENS
    )
    num_prompt_tokens = case.context if is_encoder_decoder else case.context - num_new_tokens
    random = Random(1)
    return [
        Request(tuple(random.choices(range(300, 1000), k=num_prompt_tokens)), num_new_tokens)
        for _ in range(case.rows)
    ]
