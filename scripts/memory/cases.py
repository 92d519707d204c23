"""The models whose memory is predicted and measured: real architectures of 0.1 to 1.2 B parameters, and how
each is served. Their weights are random.

Made by transformers from their configs alone; nothing is downloaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    BartConfig,
    BloomConfig,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen2MoeConfig,
    Qwen3Config,
    T5Config,
)

from inference.model.architecture import family_of
from scripts.bench import models as bench

Shape = Callable[[], Any]


def llama() -> Any:
    return LlamaConfig(
        vocab_size=32_000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=4096,
    )


def qwen3() -> Any:
    """Qwen3 0.6B."""
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )


def gemma3() -> Any:
    """Gemma 3 270M."""
    return Gemma3TextConfig(
        vocab_size=262_144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        max_position_embeddings=4096,
        sliding_window=512,
    )


def mistral() -> Any:
    return MistralConfig(
        vocab_size=32_000,
        hidden_size=1024,
        intermediate_size=3584,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        sliding_window=1024,
    )


def moe() -> Any:
    return Qwen2MoeConfig(
        vocab_size=50_000,
        hidden_size=768,
        intermediate_size=2048,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=1024,
        num_experts=16,
        num_experts_per_tok=4,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )


def t5() -> Any:
    """T5 v1.1 base."""
    return T5Config(
        vocab_size=32_128,
        d_model=768,
        d_kv=64,
        d_ff=2048,
        num_layers=12,
        num_heads=12,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        tie_word_embeddings=False,
    )


SHAPES: Mapping[str, Shape] = {
    "llama": llama,
    "llama 1b": bench.SHAPES["1b"],
    "qwen2": bench.SHAPES["0.5b"],
    "qwen3": qwen3,
    "gpt2": lambda: GPT2Config(bos_token_id=1, eos_token_id=2),
    "gpt_neox": bench.SHAPES["pythia"],
    "gemma3": gemma3,
    "mistral": mistral,
    "bloom": lambda: BloomConfig(vocab_size=250_880, hidden_size=1024, n_layer=24, n_head=16),
    "moe": moe,
    "mamba": lambda: MambaConfig(vocab_size=50_280, hidden_size=768, num_hidden_layers=24),
    "t5": t5,
    "bart": BartConfig,
}


@dataclass(frozen=True, slots=True)
class Case:
    """settings: of the server, by their flags' names; rows and context are those of the full batch."""

    shape: str
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: int = 4
    context: int = 1000

    @property
    def name(self) -> str:
        told = [f"{name} {value}" for name, value in self.settings.items()]
        return ", ".join([self.shape, *told, f"{self.rows} × {self.context}"])


CASES = (
    Case("llama"),
    Case("llama", {"dtype": "float32"}),
    Case("llama", {"quantise": "int8"}),
    Case("llama", {"seat": "packed"}),
    Case("llama", {"seat": "slots"}),
    Case("llama", {"seat": "solo"}, context=200),
    Case("llama", rows=16, context=2000),
    Case("llama 1b"),
    Case("qwen2"),
    Case("qwen2", {"quantise": "int8"}),
    Case("qwen2", {"quantise": "int4"}),
    Case("qwen2", {"max-batch-tokens": "2048"}),
    Case("qwen3"),
    Case("gpt2"),
    Case("gpt2", {"dtype": "float32"}),
    Case("gpt_neox"),
    Case("gemma3"),
    Case("gemma3", {"dtype": "float32"}),
    Case("mistral"),
    Case("bloom", context=500),
    Case("moe"),
    Case("moe", {"quantise": "int8"}),
    Case("mamba", context=500),
    Case("mamba", {"dtype": "float32"}, context=300),
    Case("t5", context=400),
    Case("bart", context=400),
)


def written(shape: str, folder: Path) -> Path:
    """The model in a folder below `folder`, in bfloat16, written if it is not there."""
    home = folder / shape.replace(" ", "-")
    if not home.exists():
        transformers.utils.logging.disable_progress_bar()
        torch.manual_seed(bench.SEED)
        config = SHAPES[shape]()
        family_of(config).from_config(config, dtype=torch.bfloat16).save_pretrained(home)
        bench.letters(config.get_text_config().vocab_size).save_pretrained(home)
    return home
