"""A gpt-oss GGUF file as llama.cpp's converter makes it: its config, and its parameters.

tests/model/gguf/test_expert_blocks.py has its MXFP4 experts.
"""

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from inference.model.load.formats import open_gguf, read_config
from tests.tiny_models.expert_models import GPT_OSS_SIZES, gpt_oss, load_file
from tests.tiny_models.gguf_files import write_gpt_oss


@pytest.fixture(scope="module")
def model() -> Any:
    return gpt_oss()


def test_the_config_is_that_of_the_model(model: Any, tmp_path: Path) -> None:
    source = write_gpt_oss(model, tmp_path / "tiny.gguf", gguf.GGMLQuantizationType.MXFP4)
    config = read_config(source, trust_remote_code=False)
    for name in (*GPT_OSS_SIZES, "layer_types", "rope_parameters", "tie_word_embeddings"):
        assert getattr(config, name) == getattr(model.config, name), name
    # A constant of the model's code in transformers 5.17.
    assert getattr(config, "swiglu_limit", None) == getattr(model.config, "swiglu_limit", None)


def test_unquantized_values_are_those_of_the_model(model: Any, tmp_path: Path) -> None:
    path = write_gpt_oss(model, tmp_path / "plain.gguf", gguf.GGMLQuantizationType.F32)
    parameters = dict(load_file(path, open_gguf).named_parameters())
    for name, weight in model.named_parameters():
        if ".experts." in name or weight.dim() == 1 or "router" in name:
            assert torch.equal(parameters[name], weight), name
