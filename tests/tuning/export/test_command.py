"""python -m tuning.export: what it writes and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.tiny_models import tiny
from tests.tuning.export.conftest import save_adapter
from tuning.export.__main__ import main


@pytest.fixture(autouse=True)
def tuning_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hearth" / "tuning"


def run(base: Path, name: object, target: Path, *options: str) -> int:
    return main([str(name), "--to", str(target), "--base", str(base), *options])


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("safetensors", {"model.safetensors", "config.json", "tokenizer.json"}),
        ("gguf-f16", {"model-f16.gguf", "tokenizer.json"}),
        ("gguf-q8_0", {"model-q8_0.gguf", "tokenizer.json"}),
        ("ollama", {"model-q8_0.gguf", "Modelfile"}),
        ("adapter", {"adapter_config.json", "adapter_model.safetensors"}),
    ],
)
def test_each_format_is_a_folder(
    base: Path, adapter: Path, tmp_path: Path, format: str, files: set[str]
) -> None:
    assert run(base, adapter, tmp_path / "out", "--format", format) == 0
    assert files <= {path.name for path in (tmp_path / "out").iterdir()}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_fine_tuned_model_is_found_by_its_name(
    base: Path, adapter: Path, tmp_path: Path, tuning_dir: Path
) -> None:
    (tuning_dir / "models").mkdir(parents=True)
    adapter.rename(tuning_dir / "models" / "ft_demo_local_facts_ab12cd34")
    assert run(base, "ft:demo:local:facts:ab12cd34", tmp_path / "out") == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "llama"


def test_an_adapter_over_a_fully_fine_tuned_model_is_merged_into_it(
    base: Path, tmp_path: Path, tuning_dir: Path
) -> None:
    (tuning_dir / "models").mkdir(parents=True)
    full = base.rename(tuning_dir / "models" / "ft_demo_local_whole_ab12cd34")
    save_adapter(full, tuning_dir / "models" / "ft_demo_local_facts_ab12cd34")
    assert main(["ft:demo:local:facts:ab12cd34", "--to", str(tmp_path / "out")]) == 0
    merged, config = (json.loads((each / "config.json").read_text()) for each in (tmp_path / "out", full))
    assert merged["hidden_size"] == config["hidden_size"], "its own base, not MODEL_NAME"


@pytest.mark.parametrize("name", ["ft:absent", "../models", "/etc"])
def test_an_unknown_name_is_refused(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(base, name, tmp_path / "out") == 1
    assert "export: NAME must be the folder of an adapter or model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_not_overwritten(
    base: Path, adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(base, adapter, base) == 1
    assert "is not an empty folder" in capsys.readouterr().err


def test_an_adapter_that_does_not_fit_leaves_nothing(
    adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tiny.llama(tmp_path / "other", hidden_size=64)
    assert run(other, adapter, tmp_path / "out") == 1
    assert "shape" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("format", "file"), [("safetensors", "model.safetensors"), ("gguf-f16", "model-f16.gguf")]
)
def test_a_whole_model_needs_no_base(base: Path, tmp_path: Path, format: str, file: str) -> None:
    assert run(tmp_path / "absent", base, tmp_path / "out", "--format", format) == 0
    assert (tmp_path / "out" / file).is_file()


def test_a_whole_model_is_no_adapter(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(base, base, tmp_path / "out", "--format", "adapter") == 1
    assert "--format must be another one: this is a whole model" in capsys.readouterr().err
