"""The model is looked up while the libraries are loaded, and whoever needs it waits for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from ahead import looking_up
from checks.finding import Refused
from settings.fields import Settings
from settings.layers import Layer, config_layer
from settings.resolve import resolve
from tests import tiny

ROOT = Path(__file__).parent.parent


def wishes(name: str) -> Settings:
    return resolve([config_layer(ROOT / "config.py"), Layer("here", {"MODEL_NAME": name})])


def test_what_takes_long_is_not_loaded_before_the_hub_is_asked() -> None:
    ask = "import sys, ahead; print('transformers' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_who_waits_gets_the_model_and_what_its_files_hold(tmp_path: Path) -> None:
    asked = wishes(str(tiny.llama(tmp_path / "tiny")))
    found = looking_up(asked, tmp_path)()
    assert "model.safetensors" in [file.name for file in found.files]
    assert found.headers and "lm_head.weight" in (found.headers.tensors or {})


def test_who_waits_is_told_of_a_refusal(tmp_path: Path) -> None:
    source = looking_up(wishes("./nowhere"), tmp_path)
    for _ in range(2):
        with pytest.raises(Refused):
            source()
