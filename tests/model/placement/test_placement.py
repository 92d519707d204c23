"""Loading onto several devices, one of them simulated."""

from pathlib import Path

import pytest
import torch

from inference.errors import BadRequest
from inference.model.load.loader import load
from settings.groups import ModelSettings
from tests.fakes.other_device import OTHER, OtherDevice
from tests.tiny_models import tiny


def test_each_layer_is_loaded_where_it_belongs_and_computes_there(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "tied", tie_word_embeddings=True)
    reference = load(folder, ModelSettings(dtype="float32", device="cpu")).model
    split = ModelSettings(dtype="float32", device=str(OTHER), layer_devices=(str(OTHER), "cpu"))
    with OtherDevice(), torch.no_grad():
        model = load(folder, split).model
        where = {name: weight.device.type for name, weight in model.named_parameters()}
        logits = model(torch.tensor([[5, 6, 7]], device=OTHER)).logits.cpu()
    assert {name for name, device in where.items() if device == "cpu"} == {
        name for name in where if name.startswith("model.layers.1.")
    }
    assert torch.allclose(logits, reference(torch.tensor([[5, 6, 7]])).logits, atol=1e-5)


def test_a_list_for_another_number_of_layers_is_refused(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "two")
    with pytest.raises(BadRequest, match="the model has 2 layers, and there are devices for 3"):
        load(folder, ModelSettings(dtype="float32", device="cpu", layer_devices=("cpu",) * 3))
