"""The forms of weights: each loads as the same model, or is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from inference.errors import BadRequest
from inference.model.load import Loaded, load
from tests import tiny
from tests.gguf_files import write

IDS = torch.tensor([[5, 6, 7, 8]])


def opened(source: Path, **changes: object) -> Loaded:
    options = {"dtype": "float32", "device": "cpu", "trust_remote_code": False}
    return load(source, **(options | changes))  # type: ignore[arg-type]


def pickled(folder: Path) -> Path:
    weights = tiny.llama(folder) / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    return folder


def test_a_gguf_file_is_the_model_it_was_made_of(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "whole")
    (tmp_path / "packed").mkdir()
    packed, plain = opened(write(folder, tmp_path / "packed" / "tiny.gguf")), opened(folder)
    assert (packed.context, packed.vocab) == (plain.context, plain.vocab)
    assert packed.tokenizer("hello").input_ids == plain.tokenizer("hello").input_ids
    with torch.inference_mode():
        ours, theirs = packed.model(IDS).logits, plain.model(IDS).logits
    assert (ours - theirs).abs().max() < 0.1 * theirs.std()  # 8 bits


def test_a_gguf_files_weights_are_plain_ones(tmp_path: Path) -> None:
    model = opened(write(tiny.llama(tmp_path), tmp_path / "tiny.gguf"), dtype="bfloat16").model
    assert {(type(weight), weight.dtype) for weight in model.parameters()} == {
        (torch.nn.Parameter, torch.bfloat16)
    }


def test_pickles_are_read_where_they_are_allowed(tmp_path: Path) -> None:
    folder = pickled(tmp_path / "bin")
    with torch.inference_mode():
        read = opened(folder, allow_pickle=True).model(IDS).logits
        assert torch.equal(read, opened(tiny.llama(tmp_path / "whole")).model(IDS).logits)


def test_pickles_are_refused_where_they_are_not(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="ALLOW_PICKLE = True"):
        opened(pickled(tmp_path))


class Code:
    def __reduce__(self) -> object:
        return print, ("run",)


def test_no_code_in_a_pickle_is_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = pickled(tmp_path)
    torch.save(torch.load(folder / "pytorch_model.bin") | {"more": Code()}, folder / "pytorch_model.bin")
    with pytest.raises(Exception):  # noqa: B017 — whose, is transformers' affair
        opened(folder, allow_pickle=True)
    assert "run" not in capfd.readouterr().out.split()
