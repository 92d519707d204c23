"""A GGUF file is read back by this server's own loader with the merged model's logits and tokens."""

from pathlib import Path

import gguf
import pytest
import torch
import transformers

from inference.errors import BadRequest
from inference.model.load import loader
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tuning.export.conftest import IDS, save_adapter
from tuning.export.gguf_file.vocabulary import LLAMA_3, pre_tokenizer_name
from tuning.export.gguf_file.write import F16, Q8_0, write_gguf
from tuning.export.merge import MergedModel, merge_adapter
from tuning.model_folder import copy_tokenizer


def load_logits(path: Path) -> torch.Tensor:
    loaded = loader.load(path, ModelSettings(dtype="float32", device="cpu"))
    with torch.no_grad():
        return loaded.model(IDS).logits


@torch.no_grad()
def rounded_logits(merged: MergedModel, kind: gguf.GGMLQuantizationType) -> torch.Tensor:
    """The logits with the matrices rounded as `kind` stores them."""
    for weight in merged.model.parameters():
        if weight.ndim > 1:
            stored = gguf.quants.quantize(weight.detach().numpy(), kind)
            weight.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind)))
    return merged.model(IDS).logits


CONFIGS = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig, {}),
    "tied": (transformers.LlamaForCausalLM, transformers.LlamaConfig, {"tie_word_embeddings": True}),
    "qwen2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config, {}),
    "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config, {"head_dim": 128}),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", [F16, Q8_0])
def test_the_file_has_the_logits_of_the_merged_model(
    tmp_path: Path, name: str, kind: gguf.GGMLQuantizationType
) -> None:
    family, config_class, changes = CONFIGS[name]
    base = tiny.save_model(tmp_path / "base", family, config_class(**tiny.LLAMA | changes))
    merged = merge_adapter(base, save_adapter(base, tmp_path / "adapter"))
    write_gguf(merged, tmp_path / "model.gguf", kind)
    copy_tokenizer(base, tmp_path)
    expected = rounded_logits(merged, kind)
    torch.testing.assert_close(load_logits(tmp_path / "model.gguf"), expected, atol=1e-4, rtol=1e-4)


def test_the_file_has_the_tokens_and_the_chat_template(base: Path, adapter: Path, tmp_path: Path) -> None:
    merged = merge_adapter(base, adapter)
    messages = write_gguf(merged, tmp_path / "model.gguf", F16)
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    assert tokens[:3] == ["<unk>", "<s>", "</s>"] and len(tokens) == 320
    assert reader.fields["tokenizer.chat_template"].contents() == tiny.TEMPLATE
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    assert types[:5] == [3] * 5 and types[-1] == gguf.TokenType.UNUSED
    assert reader.fields["tokenizer.ggml.bos_token_id"].contents() == 1
    assert messages == []


def test_the_ways_to_split_text_are_known_by_name() -> None:
    byte_level = {"type": "ByteLevel", "use_regex": False}

    def split(pattern: str) -> dict[str, object]:
        step = {"type": "Split", "pattern": {"Regex": pattern}}
        return {"type": "Sequence", "pretokenizers": [step, byte_level]}

    assert pre_tokenizer_name(split(LLAMA_3)) == "llama-bpe"
    assert pre_tokenizer_name(split(LLAMA_3.replace("{1,3}", ""))) == "qwen2"
    assert pre_tokenizer_name(split("x")) == "default"
    assert pre_tokenizer_name({"type": "ByteLevel"}) == "gpt-2"


@pytest.mark.parametrize(
    ("family", "config", "words"),
    [
        (
            transformers.OPTForCausalLM,
            transformers.OPTConfig(
                vocab_size=320,
                hidden_size=32,
                ffn_dim=64,
                num_hidden_layers=1,
                num_attention_heads=4,
                word_embed_proj_dim=32,
            ),
            "gguf can be written for llama, mistral, qwen2, qwen3",
        ),
        (
            transformers.LlamaForCausalLM,
            transformers.LlamaConfig(
                **tiny.LLAMA, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
            ),
            "rope_type linear",
        ),
    ],
)
def test_a_model_that_cannot_be_written_is_refused(
    tmp_path: Path, family: type, config: transformers.PreTrainedConfig, words: str
) -> None:
    base = tiny.save_model(tmp_path / "base", family, config)
    merged = merge_adapter(base, save_adapter(base, tmp_path / "adapter"))
    with pytest.raises(BadRequest, match=words):
        write_gguf(merged, tmp_path / "model.gguf", F16)
    assert not (tmp_path / "model.gguf").exists()


def test_a_value_beyond_float16_is_refused(base: Path, adapter: Path, tmp_path: Path) -> None:
    merged = merge_adapter(base, adapter)
    with torch.no_grad():
        merged.model.lm_head.weight[0, 0] = 1e6
    with pytest.raises(BadRequest, match=r"gguf-f16 cannot hold output.weight"):
        write_gguf(merged, tmp_path / "model.gguf", F16)
