"""The base model of a trainer has the positions and the weights of the served one."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from inference.errors import BadRequest
from inference.model.load import loader
from inference.model.load.rope import freeze_frequencies
from inference.model.quantization.imatrix import importance_of
from inference.model.quantization.quantize import pack_on
from inference.model.quantization.schemes import NONE
from settings.groups import ModelSettings
from tests.model.quantization.imatrix_files import HIDDEN, NAME, SUMS, write_legacy
from tests.tiny_models import tiny
from tests.tiny_models.families import needs_fused
from tuning.trainer.model.open_base import open_base
from tuning.types import TrainingBase

CONTEXT = 1024  # the model was trained with 512


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_scaling_of_the_positions_is_that_of_the_server(model_folder: Path, kind: str) -> None:
    base = TrainingBase(
        names=("served",),
        model_folder=str(model_folder),
        context=CONTEXT,
        dtype="float32",
        device="cpu",
        rope_scaling=kind,
        rope_factor=4.0,
    )
    settings = ModelSettings(dtype="float32", device="cpu", rope_scaling=kind, rope_factor=4.0)
    served = loader.load(model_folder, settings)
    freeze_frequencies(served.model, CONTEXT)
    opened = open_base(base, NONE)
    ids = torch.arange(5, 45)[None]
    expected = served.model(input_ids=ids, use_cache=False).logits
    assert opened.context == CONTEXT
    assert torch.equal(opened.causal(input_ids=ids, use_cache=False).logits, expected)


def test_pickles_are_read_where_the_server_reads_them(model_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "pickled")
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    base = TrainingBase(names=("m",), model_folder=str(folder), context=64, dtype="float32", device="cpu")
    with pytest.raises(BadRequest, match="ALLOW_PICKLE"):
        open_base(base, NONE)
    opened, plain = (
        open_base(each, NONE).causal.state_dict()
        for each in (replace(base, allow_pickle=True), replace(base, model_folder=str(model_folder)))
    )
    assert all(torch.equal(opened[name], weight) for name, weight in plain.items())


@needs_fused
def test_an_imatrix_weighs_the_quantized_base_as_it_weighs_the_served_one(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "m", hidden_size=HIDDEN)
    base = TrainingBase(
        names=("m",), model_folder=str(folder), context=64, dtype="float32", device="cpu", quantize="q4_0"
    )
    weighed = replace(base, imatrix=str(write_legacy(tmp_path / "a.dat", NAME, SUMS, 1)))
    served = loader.load(folder, ModelSettings(dtype="float32", device="cpu")).model
    pack_on(served, "q4_0", "cpu", importance_of(served, Path(weighed.imatrix)))
    ids = torch.arange(5, 25)[None]
    first, second, expected = (
        model(input_ids=ids, use_cache=False).logits
        for model in (open_base(base, "q4_0").causal, open_base(weighed, "q4_0").causal, served)
    )
    assert torch.equal(second, expected) and not torch.equal(first, expected)


def test_an_imatrix_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "m", hidden_size=HIDDEN)
    other = write_legacy(tmp_path / "a.dat", "blk.9.attn_q.weight", SUMS, 1)
    base = TrainingBase(names=("m",), model_folder=str(folder), context=64, device="cpu", imatrix=str(other))
    with pytest.raises(BadRequest, match="IMATRIX"):
        open_base(base, "q4_0")
