"""An adapter of LORA_ADAPTERS that cannot be served ends the start with exit code 1 and one line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo_adapter import save_adapter
from tests.serving import ROOT, free_port

pytestmark = pytest.mark.slow


def start(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "main.py", "--model", "models/demo", "--port", str(free_port()), *flags]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def absent(folder: Path) -> str:
    return f"poet={folder / 'none'}"


def of_another_rank(folder: Path) -> str:
    path = save_adapter(folder / "poet", seed=1) / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"r": 16}))
    return str(folder / "poet")


def named_as_the_model(folder: Path) -> str:
    return f"demo={save_adapter(folder / 'poet', seed=1)}"


@pytest.mark.parametrize(
    ("make_item", "reason"),
    [
        (absent, "none is neither a folder nor owner/name on the Hub"),
        (lambda folder: "acme/poet@v1", "OFFLINE is set, and the cache has no copy"),
        (of_another_rank, "lora_A.weight of shape [8, "),
        (named_as_the_model, "is a name of the model"),
    ],
)
def test_the_start_ends_with_the_reason(
    make_item: Callable[[Path], str], reason: str, tmp_path: Path
) -> None:
    item = make_item(tmp_path)
    result = start("--lora-adapters", item)
    assert result.returncode == 1
    last = result.stderr.rstrip().splitlines()[-1]
    line = next(line for line in result.stderr.splitlines() if line.startswith("hearth: "))
    assert line.startswith(f"hearth: LORA_ADAPTERS: {item}: ") and reason in line, result.stderr
    assert "Traceback" not in result.stderr and "serving on" not in result.stderr
    assert last == line or "engine stopped" in last
