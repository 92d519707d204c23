"""The model is looked up while libraries are loaded; a caller that needs it waits."""

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
