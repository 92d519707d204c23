"""A T5 in a GGUF file computes the MLP that its tensors are of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from inference.model.gguf.packed_file import open_keeping_bits
from inference.model.load.gguf.config.config import read_gguf_config
from tests.tiny_models.families import CONTEXT, tiny

MATRICES = gguf.GGMLQuantizationType.F16
IDS = torch.tensor([[5, 6, 7, 8]])


def named_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """By llama.cpp's names; as its converter, without the second and third copy of the embedding."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, model.config.num_layers)
    for name, weight in model.state_dict().items():
        gguf_name = names.get_name(name, try_suffixes=(".weight",))
        is_tied = name == "lm_head.weight" and weight.data_ptr() == model.shared.weight.data_ptr()
        if gguf_name and not is_tied:
            yield gguf_name, weight


def write_t5(model: Any, path: Path) -> Path:
    config = model.config
    writer = gguf.GGUFWriter(str(path), "t5")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.num_layers)
    writer.add_decoder_block_count(config.num_decoder_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.num_heads)
    writer.add_key_length(config.d_kv)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    writer.add_decoder_start_token_id(config.decoder_start_token_id)
    writer.add_vocab_size(config.vocab_size)
    for name, weight in named_tensors(model):
        is_plain = weight.dim() == 1 or "rel_b" in name
        values = weight.float().numpy() if is_plain else weight.half().numpy()
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"feed_forward_proj": "relu"},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"feed_forward_proj": "relu", "num_decoder_layers": 1},
    ],
    ids=["T5", "Flan-T5", "a shorter decoder"],
)
def test_logits_of_the_file_are_those_of_the_model(tmp_path: Path, settings: dict[str, Any]) -> None:
    model = tiny("t5", **settings).half().float()
    if (
        not model.config.scale_decoder_outputs
    ):  # a head of its own, which transformers ties until it is loaded
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.flip(0))
    path = write_t5(model, tmp_path / "t5.gguf")
    config = read_gguf_config(path)
    loaded, missing = open_keeping_bits(AutoModelForSeq2SeqLM, path, config=config, dtype=torch.float32)
    assert not missing
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS}
    with torch.no_grad():
        torch.testing.assert_close(loaded.eval()(**inputs).logits, model(**inputs).logits)
