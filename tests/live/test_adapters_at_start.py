"""An adapter of LORA_ADAPTERS that cannot be served ends the start with exit code 1 and the reason."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scripts.loopback import free_port
from tests.lora.demo_adapter import save_adapter
from tests.servers.forked_main import run_to_end

pytestmark = pytest.mark.slow


def start(*flags: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--model", "models/demo", "--port", str(free_port()), *flags]
    return run_to_end(arguments, {**os.environ, "HF_HUB_OFFLINE": "1"})


def save_with_another_rank(folder: Path) -> Path:
    path = save_adapter(folder, seed=1) / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"r": 16}))
    return folder


def test_the_start_ends_before_the_model_is_loaded(tmp_path: Path) -> None:
    reasons = {
        f"none={tmp_path / 'none'}": "none is neither a folder nor owner/name on the Hub",
        "acme/poet@v1": "OFFLINE is set, and the cache has no copy",
        str(save_with_another_rank(tmp_path / "cook")): "lora_A.weight of shape [8, ",
        f"demo={save_adapter(tmp_path / 'muse', seed=1)}": "is a name of the model",
    }
    result = start("--lora-adapters", *reasons)
    assert result.returncode == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("adapter")]
    assert [line.split()[1:3] for line in lines] == [["NO", item] for item in reasons], result.stdout
    assert all(reason in line for line, reason in zip(lines, reasons.values(), strict=True)), result.stdout
    assert "runner" not in result.stderr and "Traceback" not in result.stderr


def test_an_adapter_that_the_model_cannot_compute_ends_the_start_with_one_line(tmp_path: Path) -> None:
    path = save_adapter(tmp_path / "poet", seed=1) / "adapter_model.safetensors"
    save_file({key: torch.full_like(each, 1e38) for key, each in load_file(path).items()}, path)
    result = start("--lora-adapters", f"poet={path.parent}")
    assert result.returncode == 1
    line = next(line for line in result.stderr.splitlines() if line.startswith("hearth: "))
    assert line.startswith(f"hearth: LORA_ADAPTERS: poet={path.parent}: ") and "NaN or infinite" in line
    assert "Traceback" not in result.stderr and "serving on" not in result.stderr
