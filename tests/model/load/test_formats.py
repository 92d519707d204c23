"""Weight file formats: each loads as the same model, or is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from inference.errors import BadRequest
from inference.model.load.loader import LoadedModel, load
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

IDS = torch.tensor([[5, 6, 7, 8]])


def load_model(source: Path, **changes: object) -> LoadedModel:
    options = {"dtype": "float32", "device": "cpu"}
    return load(source, ModelSettings(**(options | changes)))  # type: ignore[arg-type]


def pickled(folder: Path) -> Path:
    weights = tiny.llama(folder) / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    return folder


def test_a_gguf_file_loads_as_the_model_it_was_converted_from(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "whole")
    (tmp_path / "packed").mkdir()
    from_gguf, plain = load_model(write(folder, tmp_path / "packed" / "tiny.gguf")), load_model(folder)
    assert (from_gguf.context, from_gguf.vocab) == (plain.context, plain.vocab)
    assert from_gguf.tokenizer("hello").input_ids == plain.tokenizer("hello").input_ids
    with torch.inference_mode():
        ours, theirs = from_gguf.model(IDS).logits, plain.model(IDS).logits
    assert (ours - theirs).abs().max() < 0.1 * theirs.std()  # 8 bits


def test_weights_of_a_gguf_file_are_plain_parameters(tmp_path: Path) -> None:
    model = load_model(write(tiny.llama(tmp_path), tmp_path / "tiny.gguf"), dtype="bfloat16").model
    assert {(type(weight), weight.dtype) for weight in model.parameters()} == {
        (torch.nn.Parameter, torch.bfloat16)
    }


def test_pickles_are_read_where_they_are_allowed(tmp_path: Path) -> None:
    folder = pickled(tmp_path / "bin")
    with torch.inference_mode():
        read = load_model(folder, allow_pickle=True).model(IDS).logits
        assert torch.equal(read, load_model(tiny.llama(tmp_path / "whole")).model(IDS).logits)


def test_pickles_are_refused_where_they_are_not(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="ALLOW_PICKLE = True"):
        load_model(pickled(tmp_path))


class Code:
    def __reduce__(self) -> object:
        return print, ("run",)


def test_no_code_in_a_pickle_is_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = pickled(tmp_path)
    torch.save(torch.load(folder / "pytorch_model.bin") | {"more": Code()}, folder / "pytorch_model.bin")
    with pytest.raises(Exception):  # noqa: B017 — the type is up to transformers
        load_model(folder, allow_pickle=True)
    assert "run" not in capfd.readouterr().out.split()
