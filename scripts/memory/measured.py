"""A server is started, answers a full batch, and is measured from outside, beside what it predicted itself.

Nothing that the machine has learned is known to it. Knows processes and HTTP; not what is predicted how.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from inference.resident import resident
from scripts.bench.load import Request
from scripts.bench.server import NAME, ROOT, asked, free_port
from scripts.memory.cases import Case

READY_S, TOLD_S, POLL_S = 170, 20, 0.1
# Tokens of an answer, besides one for each STEP tokens of prompts, so that all rows are taken at once; of a
# model that encodes its prompt, as many as the prompt has.
NEW, STEP = 8, 256
READY, FULL = "memory, ready", "memory, first full batch"


@dataclass(frozen=True, slots=True)
class Pair:
    predicted: int
    actual: int

    @property
    def error(self) -> float:
        return self.predicted / self.actual - 1


@dataclass(frozen=True, slots=True)
class Measured:
    """loading: the most RAM until it is ready; serving: the most since, by the kernel's count. On a GPU: its
    memory when the model is ready, and behind the full batch. terms: all that the server says, the last word
    on each."""

    loading: Pair
    serving: Pair
    terms: dict[str, Pair]


def measured(case: Case, model: Path, scratch: Path) -> Measured:
    """Raises OSError, TimeoutError or subprocess.SubprocessError where the server does not serve."""
    with serving(case, model, scratch) as (process, port, out):
        ready = told(out, READY, READY_S, process)
        asyncio.run(asked(f"http://127.0.0.1:{port}", load(case, model)))
        full = told(out, FULL, TOLD_S, process)
        peak = resident(process.pid).peak
    if "GPU" in full:
        return Measured(ready["GPU ready"], full["GPU"], ready | full)
    return Measured(ready["RAM loading"], Pair(full["RAM"].predicted, peak), ready | full)


@contextmanager
def serving(case: Case, model: Path, scratch: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    port, out = free_port(), scratch / "out"
    flags = {"model": str(model), "port": str(port), "served-names": NAME, "log-level": "warning"}
    flags |= {"max-sequences": str(case.rows), "context": str(case.context)} | dict(case.settings)
    command = [sys.executable, str(ROOT / "main.py"), "--json-output"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    environment = os.environ | {"XDG_CACHE_HOME": str(unlearned(scratch)), "HF_HUB_OFFLINE": "1"}
    with out.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.DEVNULL)
    try:
        await_ready(process, port)
        yield process, port, out
    finally:
        process.terminate()
        process.wait(timeout=60)


def unlearned(scratch: Path) -> Path:
    """A cache in which the compiled library is, and nothing else."""
    real = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth" / "native"
    real.mkdir(parents=True, exist_ok=True)
    home = scratch / "cache"
    link = home / "hearth" / "native"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(real.resolve(), target_is_directory=True)
    (home / "hearth" / "memory.json").unlink(missing_ok=True)
    return home


def await_ready(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=2).close()
            return
        except OSError:
            time.sleep(POLL_S)
    raise TimeoutError(f"not ready within {READY_S} s, exit code {process.poll()}")


def told(out: Path, title: str, patience_s: float, process: subprocess.Popen[bytes]) -> dict[str, Pair]:
    """What the server says under a title, by term."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end and process.poll() is None:
        for line in out.read_text().splitlines():
            if (
                line.startswith("{")
                and line.endswith("}")
                and (said := json.loads(line)).get("told") == title
            ):
                return {term: Pair(**values) for term, values in said["terms"].items()}
        time.sleep(POLL_S)
    raise TimeoutError(f"the server has not told of {title!r}")


def load(case: Case, model: Path) -> list[Request]:
    """A prompt for each row, none like another, so that every row comes to its whole context."""
    encodes = json.loads((model / "config.json").read_text()).get("is_encoder_decoder", False)
    new = case.context - 2 if encodes else NEW + case.rows * case.context // STEP
    prompt = case.context if encodes else case.context - new
    random = Random(1)
    return [Request(tuple(random.choices(range(300, 1000), k=prompt)), new) for _ in range(case.rows)]
