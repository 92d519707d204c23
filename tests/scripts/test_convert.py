"""Converted weights are those of the pickles, are loaded as safetensors, and no code of a pickle runs."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hub.resolve import from_folder
from inference.errors import BadRequest
from inference.model.load.loader import load
from scripts import convert
from settings.groups import ModelSettings
from tests.fakes import fake_hub
from tests.tiny_models import tiny


def pickled(folder: Path, num_files: int = 1, **changes: object) -> Path:
    """A tiny Llama in pickles, with a file of another framework and a hidden one."""
    tiny.llama(folder, **changes)
    path = folder / "model.safetensors"
    state = load_file(path)
    if changes.get("tie_word_embeddings"):
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    path.unlink()
    names, index = sorted(state), {}
    for number in range(num_files):
        name = (
            "pytorch_model.bin" if num_files == 1 else f"pytorch_model-{number + 1:05}-of-{num_files:05}.bin"
        )
        tensors = {key: state[key] for key in names[number::num_files]}
        torch.save(tensors, folder / name)
        index |= dict.fromkeys(tensors, name)
    if num_files > 1:
        (folder / "pytorch_model.bin.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": index})
        )
    (folder / "tf_model.h5").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_bytes(b"x")
    return folder


def logits(folder: Path, allow_pickle: bool = False) -> torch.Tensor:
    settings = ModelSettings(dtype="float32", device="cpu", allow_pickle=allow_pickle)
    return load(folder, settings).model(torch.tensor([[5, 6, 7]])).logits


@pytest.mark.parametrize(("num_files", "changes"), [(1, {}), (3, {}), (1, {"tie_word_embeddings": True})])
def test_a_converted_model_computes_the_same(tmp_path: Path, num_files: int, changes: dict) -> None:
    source, target = pickled(tmp_path / "bin", num_files, **changes), tmp_path / "out" / "safe"
    assert convert.main([str(source), str(target)]) == 0
    assert torch.equal(logits(target), logits(source, allow_pickle=True))
    names = {path.name for path in target.iterdir()}
    assert {"config.json", "tokenizer.json"} < names and not {"tf_model.h5", ".git"} & names
    assert not [name for name in names if ".bin" in name]
    assert len([name for name in names if name.endswith(".safetensors")]) == num_files
    assert ("model.safetensors.index.json" in names) == (num_files > 1)
    assert all(file.is_local for file in from_folder("safe", target).files)
    assert sorted(path.name for path in target.parent.iterdir()) == ["safe"]


def test_a_weight_tied_to_another_is_stored_once_and_other_shared_memory_is_copied(tmp_path: Path) -> None:
    source = pickled(tmp_path / "bin", tie_word_embeddings=True)
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    norms = [name for name in state if name.endswith("layernorm.weight")]
    for name in norms:
        state[name] = state[norms[0]]
    both = torch.cat([state["model.norm.weight"], state["model.norm.weight"]])
    state["model.norm.weight"] = both[:32]
    torch.save(state, source / "pytorch_model.bin")
    convert.convert(source, tmp_path / "safe")
    stored = load_file(tmp_path / "safe" / "model.safetensors")
    assert set(state) - set(stored) == {"lm_head.weight"}
    assert all(torch.equal(stored[name], state[name]) for name in stored)


class Hostile:
    def __reduce__(self) -> tuple:
        return os.mkdir, (str(HOSTILE_FOLDER),)


HOSTILE_FOLDER = Path("/nowhere")


def test_code_in_a_pickle_is_refused_and_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = pickled(tmp_path / "bin")
    monkeypatch.setattr(f"{__name__}.HOSTILE_FOLDER", tmp_path / "ran")
    for save in (torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))):
        save({"a": Hostile()}, source / "pytorch_model.bin")
        assert convert.main([str(source), str(tmp_path / "safe")]) == 1
        assert "convert: pytorch_model.bin cannot be read: " in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "pytorch_model.bin: a is a int, and not a tensor"),
        ([torch.ones(1)], "pytorch_model.bin holds no table of tensors by name"),
        (None, "pytorch_model.bin holds no table of tensors by name"),
    ],
)
def test_a_file_without_tensors_is_refused(tmp_path: Path, content: object, message: str) -> None:
    source = pickled(tmp_path / "bin")
    torch.save(content, source / "pytorch_model.bin")
    with pytest.raises(convert.CannotConvert, match=message):
        convert.convert(source, tmp_path / "safe")


def test_a_file_of_an_old_torch_is_read(tmp_path: Path) -> None:
    source = pickled(tmp_path / "bin")
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    torch.save(state, source / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    convert.convert(source, tmp_path / "safe")
    assert torch.equal(logits(tmp_path / "safe"), logits(source, allow_pickle=True))


def test_nothing_is_overwritten_and_nothing_is_converted_twice(tmp_path: Path) -> None:
    source = pickled(tmp_path / "bin")
    with pytest.raises(convert.CannotConvert, match="exists and is not an empty folder"):
        convert.convert(source, source)
    with pytest.raises(convert.CannotConvert, match="has safetensors already"):
        convert.convert(source_with_safetensors(tmp_path), tmp_path / "new")
    with pytest.raises(convert.CannotConvert, match="has no pytorch_model"):
        convert.convert(tiny.llama(tmp_path / "plain"), tmp_path / "new")


def source_with_safetensors(tmp_path: Path) -> Path:
    folder = pickled(tmp_path / "both")
    tiny.llama(folder)
    return folder


def test_a_model_on_the_hub_is_fetched_and_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_DIR", str(tmp_path / "cache"))
    with fake_hub.running() as hub:
        hub.repos["acme/old"] = fake_hub.Repo(pickled(tmp_path / "bin"))
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        assert convert.main(["acme/old", str(tmp_path / "safe")]) == 0
    assert logits(tmp_path / "safe").shape[-1] == 320


def test_the_refusal_of_pickles_names_the_converter(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"python -m scripts\.convert MODEL FOLDER"):
        load(pickled(tmp_path), ModelSettings(dtype="float32", device="cpu"))
