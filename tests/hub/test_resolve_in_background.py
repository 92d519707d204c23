"""The model is looked up while libraries are loaded; a caller that needs it waits."""

import subprocess
import sys
from pathlib import Path

import pytest

from hub.resolve import resolve_in_background
from inference.finding import Refused
from settings.schema import Settings
from settings.sources import Source, read_config_file, resolve
from tests.tiny_models import tiny

ROOT = Path(__file__).parents[2]


def settings_for(name: str) -> Settings:
    return resolve([read_config_file(ROOT / "config.py"), Source("here", {"MODEL_NAME": name})])


def test_slow_libraries_are_not_loaded_before_the_hub_look_up_starts() -> None:
    program = "import sys, hub.resolve; print('transformers' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_the_waiting_caller_gets_the_model_and_its_headers(tmp_path: Path) -> None:
    settings = settings_for(str(tiny.llama(tmp_path / "tiny")))
    resolved = resolve_in_background(settings, tmp_path)()
    assert "model.safetensors" in [file.name for file in resolved.files]
    assert resolved.headers and "lm_head.weight" in (resolved.headers.tensors or {})


def test_the_waiting_caller_gets_the_refusal(tmp_path: Path) -> None:
    source = resolve_in_background(settings_for("./nowhere"), tmp_path)
    for _ in range(2):
        with pytest.raises(Refused):
            source()
