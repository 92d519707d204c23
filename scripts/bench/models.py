"""The models to measure: shapes of real models with random weights, or a folder. Nothing is downloaded.

A model's speed depends on its shape. The values of its weights affect only speculative decoding.
"""

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from inference.model.load.device_dtype import resolve_device
from inference.model.quantization.find_weights import WeightRole, find_weights
from inference.model.quantization.schemes import bytes_saved, weight_bytes_saved
from scripts.decoder_numbers import decoder_numbers

SEED = 1
# The tokenizer classes of these model families add these tokens if they are missing.
SPECIAL_TOKENS = ("<|endoftext|>", "<unk>", "<s>", "</s>")
CONTEXT_2K, CONTEXT_4K = {"max_position_embeddings": 2048}, {"max_position_embeddings": 4096}
TIED = {"tie_word_embeddings": True}
# Shapes of config.json on the Hub: Qwen2.5-0.5B, Llama-3.2-1B, Pythia-410m, Llama-3.1-8B.
SHAPES: Mapping[str, Any] = {
    "tiny": lambda: LlamaConfig(**decoder_numbers(32, 64, 2, 4, 2, 512, **CONTEXT_2K)),
    "77m": lambda: Qwen2Config(**decoder_numbers(512, 2048, 16, 8, 2, 32_000, **CONTEXT_4K, **TIED)),
    "0.5b": lambda: Qwen2Config(
        **decoder_numbers(896, 4864, 24, 14, 2, 151_936, rope_theta=1e6, **CONTEXT_4K, **TIED)
    ),
    "1b": lambda: LlamaConfig(
        **decoder_numbers(2048, 8192, 16, 32, 8, 128_256, rope_theta=5e5, **CONTEXT_4K, **TIED)
    ),
    "pythia": lambda: GPTNeoXConfig(
        vocab_size=50_304,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        rotary_pct=0.25,
        use_parallel_residual=True,
        **CONTEXT_2K,
    ),
    "8b": lambda: LlamaConfig(
        **decoder_numbers(4096, 14_336, 32, 32, 8, 128_256, rope_theta=5e5, max_position_embeddings=8192)
    ),
}


def config_of(model: str) -> Any:
    """The config of a shape, or of the model in a folder."""
    if model in SHAPES:
        return SHAPES[model]()
    if not Path(model, "config.json").exists():
        raise SystemExit(f"--model must be one of {', '.join(SHAPES)} or a model's folder, not {model!r}")
    return AutoConfig.from_pretrained(model)


@cache
def vocab_size(model: str) -> int:
    return int(config_of(model).vocab_size)


@cache
def num_parameters(model: str) -> int:
    with torch.device("meta"):
        return int(AutoModelForCausalLM.from_config(config_of(model)).num_parameters())


@cache
def bytes_per_token(model: str, quantize: str) -> int:
    """Bytes of stored weights that decoding one token reads: all but an untied input embedding."""
    with torch.device("meta"):
        model_on_meta = AutoModelForCausalLM.from_config(config_of(model), dtype=torch.bfloat16)
    total = sum(weight.nbytes for weight in model_on_meta.parameters())
    weights = list(find_weights(model_on_meta, "meta"))
    saved = weight_bytes_saved(weights, quantize, 2, "cpu")
    unread = (each for each in weights if each.role is WeightRole.EMBEDDING)
    looked_up = sum(each.weight.nbytes - saved[each.name] for each in unread)
    return total - bytes_saved(model_on_meta, 2, "cpu").get(quantize, 0) - looked_up


def build_model(model: str, dtype: str, device: str) -> Any:
    """The model in eval mode on the device. A shape gets the same random weights every time."""
    torch_dtype = getattr(torch, dtype)
    if model not in SHAPES:
        built_model = AutoModelForCausalLM.from_pretrained(model, dtype=torch_dtype).to(device)
        return built_model.eval().requires_grad_(False)
    torch.manual_seed(SEED)
    with torch.device(device):
        built_model = AutoModelForCausalLM.from_config(config_of(model), dtype=torch_dtype)
    return built_model.eval().requires_grad_(False)


def encode_text(model: str, text: str) -> tuple[int, ...]:
    tokenizer = byte_tokenizer(512) if model in SHAPES else AutoTokenizer.from_pretrained(model)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def model_folder(model: str) -> Path:
    """The folder that a server loads. A shape is first written to the temporary folder, if it is missing."""
    if model not in SHAPES:
        return Path(model).resolve()
    path = Path(tempfile.gettempdir(), f"hearth-bench-{os.getuid()}-{model}")
    if not path.exists():
        transformers.utils.logging.disable_progress_bar()
        unfinished = Path(tempfile.mkdtemp())
        build_model(model, "bfloat16", resolve_device("auto")).save_pretrained(unfinished)
        byte_tokenizer(config_of(model).vocab_size).save_pretrained(unfinished)
        move_into_place(unfinished, path)
    return path


def move_into_place(unfinished: Path, path: Path) -> None:
    """Rename the folder, unless another process has created `path` in the meantime."""
    try:
        unfinished.rename(path)
    except OSError:
        if not path.exists():
            raise


def byte_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per byte of a text that has no number behind a w."""
    texts, merges = byte_level_vocabulary(vocab_size)
    vocabulary = {text: id for id, text in enumerate(texts)}
    tokenizer = Tokenizer(tokenizer_models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def byte_level_vocabulary(vocab_size: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The texts by id, and the merges: bytes, w and a number, special tokens.

    Each number has a merge, as in the vocabularies of real models, because merges take most of the memory
    and of the time in which a tokenizer is read.
    """
    texts = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = range(vocab_size - len(texts) - len(SPECIAL_TOKENS))
    merges = [(f"w{number // 10}" if number > 9 else "w", str(number % 10)) for number in numbers]
    return [*texts, *map("".join, merges), *SPECIAL_TOKENS], merges
