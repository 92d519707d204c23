"""A GGUF file whose layers have biases computes with them."""

from pathlib import Path

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.model.load.formats import FORMATS
from inference.model.load.gguf.config.config import read_gguf_config
from inference.model.load.loader import load
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

SETTINGS = ModelSettings(dtype="float32", device="cpu")
IDS = torch.tensor([[5, 6, 7, 8]])


@pytest.mark.parametrize("formats", [FORMATS, KEPT_FORMATS], ids=["dequantized", "packed"])
def test_logits_with_biases_are_those_of_the_model(tmp_path: Path, formats: tuple) -> None:  # type: ignore[type-arg]
    folder = tiny.llama(tmp_path / "llama", attention_bias=True, mlp_bias=True)
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name in filter(lambda name: name.endswith(".bias"), weights):
        weights[name] = torch.linspace(-1, 1, len(weights[name]))
    save_file({name: weight.half().float() for name, weight in weights.items()}, path, {"format": "pt"})
    file = write(folder, tmp_path / "a.gguf", value_type=gguf.GGMLQuantizationType.F16)
    expected, loaded = (load(source, SETTINGS, formats=formats).model for source in (folder, file))
    with torch.inference_mode():
        torch.testing.assert_close(loaded(IDS).logits, expected(IDS).logits)


def test_a_file_without_biases_has_none_in_its_config(tmp_path: Path) -> None:
    config = read_gguf_config(write(tiny.llama(tmp_path / "llama"), tmp_path / "a.gguf"))
    assert (config.attention_bias, config.mlp_bias) == (False, False)
