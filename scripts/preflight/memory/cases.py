"""The models whose memory is predicted and measured, and the settings to serve each with.

Real architectures of 0.1 to 1.2 B parameters and a GGUF file of 7 B, with random weights; nothing is
downloaded.
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

from inference.model.load.architecture import auto_class_of
from scripts.bench import models as bench_models
from scripts.bench.models import CONTEXT_4K, TIED
from scripts.decoder_numbers import decoder_numbers
from scripts.preflight.speed.random_gguf import FILE_TYPES, write_gguf

MakeConfig = Callable[[], Any]


def moe() -> Any:
    return Qwen2MoeConfig(
        **decoder_numbers(768, 2048, 12, 12, 4, 50_000, max_position_embeddings=2048),
        moe_intermediate_size=512,
        shared_expert_intermediate_size=1024,
        num_experts=16,
        num_experts_per_tok=4,
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


SHAPES: Mapping[str, MakeConfig] = {
    "llama": lambda: LlamaConfig(**decoder_numbers(768, 2048, 12, 12, 4, 32_000, **CONTEXT_4K)),
    "llama 1b": bench_models.SHAPES["1b"],
    "llama 7b Q4_K_M": lambda: LlamaConfig(
        **decoder_numbers(4096, 11_008, 32, 32, 32, 32_000, **CONTEXT_4K, **TIED)
    ),
    "qwen2": bench_models.SHAPES["0.5b"],
    "qwen3": lambda: Qwen3Config(  # 0.6B
        **decoder_numbers(1024, 3072, 28, 16, 8, 151_936, head_dim=128, **CONTEXT_4K, **TIED)
    ),
    "gpt2": lambda: GPT2Config(bos_token_id=1, eos_token_id=2),
    "gpt_neox": bench_models.SHAPES["pythia"],
    "gemma3": lambda: Gemma3TextConfig(  # 270M
        **decoder_numbers(640, 2048, 18, 4, 1, 262_144, head_dim=256, sliding_window=512, **CONTEXT_4K)
    ),
    "mistral": lambda: MistralConfig(
        **decoder_numbers(1024, 3584, 16, 16, 4, 32_000, sliding_window=1024, **CONTEXT_4K)
    ),
    "bloom": lambda: BloomConfig(vocab_size=250_880, hidden_size=1024, n_layer=24, n_head=16),
    "moe": moe,
    "mamba": lambda: MambaConfig(vocab_size=50_280, hidden_size=768, num_hidden_layers=24),
    "t5": t5,
    "bart": BartConfig,
}


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """A model and how to serve it.

    shape    name in SHAPES
    settings the server's flags, without dashes, and their values
    rows     sequences in the full batch
    context  tokens of each of these sequences
    """

    shape: str
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: int = 4
    context: int = 1000

    @property
    def name(self) -> str:
        settings_text = [f"{name} {value}" for name, value in self.settings.items()]
        return ", ".join([self.shape, *settings_text, f"{self.rows} × {self.context}"])


CASES = (
    MemoryCase("llama"),
    MemoryCase("llama", {"dtype": "float32"}),
    MemoryCase("llama", {"quantize": "int8"}),
    MemoryCase("llama", {"runner": "paged"}),
    MemoryCase("llama", {"runner": "contiguous"}),
    MemoryCase("llama", {"runner": "uncached"}, context=200),
    MemoryCase("llama", rows=16, context=2000),
    MemoryCase("llama 1b"),
    MemoryCase("llama 7b Q4_K_M", rows=1, context=2000),
    MemoryCase("qwen2"),
    MemoryCase("qwen2", {"quantize": "int8"}),
    MemoryCase("qwen2", {"quantize": "int4"}),
    MemoryCase("qwen2", {"max-batch-tokens": "2048"}),
    MemoryCase("qwen3"),
    MemoryCase("gpt2"),
    MemoryCase("gpt2", {"dtype": "float32"}),
    MemoryCase("gpt_neox"),
    MemoryCase("gemma3"),
    MemoryCase("gemma3", {"dtype": "float32"}),
    MemoryCase("mistral"),
    MemoryCase("bloom", context=500),
    MemoryCase("moe"),
    MemoryCase("moe", {"quantize": "int8"}),
    MemoryCase("mamba", context=500),
    MemoryCase("mamba", {"dtype": "float32"}, context=300),
    MemoryCase("t5", context=400),
    MemoryCase("bart", context=400),
)


def write_model(shape: str, folder: Path) -> Path:
    """The model's folder below `folder`, in bfloat16; written if it is missing.

    It is a GGUF file if the shape's name ends with a type of such files.
    """
    path, file_type = folder / shape.replace(" ", "-"), shape.rpartition(" ")[2]
    if file_type in FILE_TYPES:
        path = path.with_name(f"{path.name}.gguf")
    if path.exists():
        return path
    config = SHAPES[shape]()
    if config.eos_token_id is None:  # grammars need an end: </s>
        config.eos_token_id = config.vocab_size - 1
    if file_type in FILE_TYPES:
        write_gguf(config, file_type, path)
        return path
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(bench_models.SEED)
    auto_class_of(config).from_config(config, dtype=torch.bfloat16).save_pretrained(path)
    bench_models.byte_tokenizer(config.get_text_config().vocab_size).save_pretrained(path)
    return path
