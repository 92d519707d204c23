"""The factors of rotary frequencies that a GGUF file has as tensors are those of its model."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from inference.model.load.gguf.config.config import read_gguf_config
from inference.model.load.gguf.config.rope_factors import apply_rope_factors
from inference.model.load.gguf.file.header import GgufHeader, GgufTensor
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def test_frequencies_of_llama_3_are_exact(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path / "llama")
    config = AutoConfig.from_pretrained(folder, rope_parameters=LLAMA3)
    plain = LlamaRotaryEmbedding(AutoConfig.from_pretrained(folder)).inv_freq
    expected = LlamaRotaryEmbedding(config).inv_freq
    factors = (plain / expected).numpy()
    assert factors[0] == 1 and factors[-1] > 1
    path = write(folder, tmp_path / "a.gguf", further={"rope_freqs.weight": factors})
    rotary = LlamaRotaryEmbedding(read_gguf_config(path))
    torch.testing.assert_close(rotary.inv_freq, expected, rtol=1e-6, atol=0)
    assert rotary.attention_scaling == 1
    rotary(torch.empty(1), torch.tensor([[4000]]))  # longer than the config's length
    torch.testing.assert_close(rotary.inv_freq, expected, rtol=1e-6, atol=0)


def test_phi_3_has_other_frequencies_beyond_its_original_length() -> None:
    names = ("rope_factors_long.weight", "rope_factors_short.weight")
    header = GgufHeader(
        2,
        texts={"general.architecture": "phi3"},
        numbers={"phi3.rope.scaling.original_context_length": 64, "phi3.rope.scaling.attn_factor": 1.25},
        tensors=[GgufTensor(name, (8,), 0, 0) for name in names],
    )
    config = AutoConfig.for_model(
        "phi3", hidden_size=32, num_attention_heads=2, max_position_embeddings=256, pad_token_id=0
    )
    plain = Phi3RotaryEmbedding(config).inv_freq
    apply_rope_factors(config, header, lambda name: [4.0 if "long" in name else 2.0] * 8)
    rotary = Phi3RotaryEmbedding(config)
    assert rotary.attention_scaling == 1.25
    for length, factor in ((64, 2), (65, 4)):
        rotary(torch.empty(1), torch.arange(length)[None])
        torch.testing.assert_close(rotary.inv_freq, plain / factor)


def test_gemma_4_states_its_frequencies_in_its_config() -> None:
    header = GgufHeader(
        1,
        texts={"general.architecture": "gemma4"},
        tensors=[GgufTensor("rope_freqs.weight", (8,), 0, 0)],
    )
    config = AutoConfig.for_model("gemma4_text")
    before = dict(config.rope_parameters)
    apply_rope_factors(config, header, lambda name: np.ones(8).tolist())
    assert config.rope_parameters == before
