"""The scaling of positions that a GGUF file states is that of its config."""

from typing import Any

import pytest
from transformers import AutoConfig

from inference.model.load.gguf.config.rope import apply_rope_scaling
from inference.model.load.gguf.file.header import GgufHeader


def header_with(architecture: str, kind: str, **numbers: float) -> GgufHeader:
    begin = f"{architecture}.rope.scaling."
    texts = {"general.architecture": architecture, f"{begin}type": kind}
    return GgufHeader(0, texts=texts, numbers={begin + name: value for name, value in numbers.items()})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (header_with("llama", "linear", factor=4.0), {"rope_type": "linear", "factor": 4.0}),
        (
            header_with("llama", "yarn", factor=4.0, original_context_length=64, yarn_beta_fast=16.0),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "beta_fast": 16.0,
            },
        ),
        (header_with("llama", "none"), {"rope_type": "default"}),
        (header_with("qwen2", "longrope"), {"rope_type": "default"}),
    ],
)
def test_the_scaling_of_the_file_is_that_of_the_config(header: GgufHeader, expected: dict[str, Any]) -> None:
    config = AutoConfig.for_model("llama", rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    apply_rope_scaling(config, header)
    assert config.rope_parameters == expected | {"rope_theta": 5e5}


def test_where_kinds_of_layers_differ_those_of_full_attention_are_scaled() -> None:
    config = AutoConfig.for_model("gemma3_text")
    before = dict(config.rope_parameters["sliding_attention"])
    apply_rope_scaling(config, header_with("gemma3", "linear", factor=8.0))
    full = config.rope_parameters["full_attention"]
    assert (full["rope_type"], full["factor"], full["rope_theta"]) == ("linear", 8.0, 1e6)
    assert config.rope_parameters["sliding_attention"] == before


def test_a_model_without_rotary_positions_has_no_scaling() -> None:
    config = AutoConfig.for_model("gpt2")
    apply_rope_scaling(config, header_with("gpt2", "yarn", factor=4.0))
    assert not getattr(config, "rope_parameters", None)
