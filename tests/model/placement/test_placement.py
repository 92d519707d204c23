"""Loading onto several devices, one of them simulated."""

from pathlib import Path

import pytest
import torch

from inference.errors import BadRequest
from inference.model.load.loader import load
from tests import tiny
from tests.other_device import OTHER, OtherDevice


def test_each_layer_is_loaded_where_it_belongs_and_computes_there(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "tied", tie_word_embeddings=True)
    options = {"dtype": "float32", "trust_remote_code": False}
    reference = load(folder, device="cpu", **options).model
    with OtherDevice(), torch.no_grad():
        model = load(folder, device=str(OTHER), layers=(str(OTHER), "cpu"), **options).model
        where = {name: weight.device.type for name, weight in model.named_parameters()}
        logits = model(torch.tensor([[5, 6, 7]], device=OTHER)).logits.cpu()
    assert {name for name, device in where.items() if device == "cpu"} == {
        name for name in where if name.startswith("model.layers.1.")
    }
    assert torch.allclose(logits, reference(torch.tensor([[5, 6, 7]])).logits, atol=1e-5)


def test_a_list_for_another_number_of_layers_is_refused(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "two")
    with pytest.raises(BadRequest, match="the model has 2 layers, and there are devices for 3"):
        load(folder, dtype="float32", device="cpu", trust_remote_code=False, layers=("cpu",) * 3)
