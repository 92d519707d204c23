"""Models to measure with: real shapes with random weights, made here; or any folder.

How fast a model is follows from its shape; what its weights say does not matter, except for what is guessed
ahead of an answer. Nothing is downloaded.
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
from tokenizers import models as forms
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from inference.model.weights.found import Role, find
from inference.model.weights.kinds import saved, saving

SEED = 1
# What transformers' tokenizers of these families add where they do not find it.
MARKS = ("<|endoftext|>", "<unk>", "<s>", "</s>")
# Shapes are those of config.json on the Hub: Qwen2.5-0.5B, Llama-3.2-1B, Pythia-410m, Llama-3.1-8B.
SHAPES: Mapping[str, Any] = {
    "tiny": lambda: LlamaConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
    ),
    "77m": lambda: Qwen2Config(
        vocab_size=32_000,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    ),
    "0.5b": lambda: Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        rope_theta=1e6,
        tie_word_embeddings=True,
    ),
    "1b": lambda: LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=4096,
        rope_theta=5e5,
        tie_word_embeddings=True,
    ),
    "pythia": lambda: GPTNeoXConfig(
        vocab_size=50_304,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        max_position_embeddings=2048,
        rotary_pct=0.25,
        use_parallel_residual=True,
    ),
    "8b": lambda: LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_theta=5e5,
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
def vocab(model: str) -> int:
    return int(config_of(model).vocab_size)


@cache
def parameters(model: str) -> int:
    with torch.device("meta"):
        return int(AutoModelForCausalLM.from_config(config_of(model)).num_parameters())


@cache
def bytes_read(model: str, quantise: str) -> int:
    """Of the weights, for one token, as we keep them: all but those of an embedding that only gives a row."""
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config_of(model), dtype=torch.bfloat16)
    whole = sum(weight.nbytes for weight in made.parameters())
    unread = (found for found in find(made, "meta") if found.role is Role.EMBEDDING)
    looked_up = sum(found.weight.nbytes - saving(found, quantise, 2) for found in unread)
    return whole - saved(made, 2).get(quantise, 0) - looked_up


def build(model: str, dtype: str, device: str) -> Any:
    """The model in eval mode, ready on its device. A shape's weights are the same each time."""
    form = getattr(torch, dtype)
    if model not in SHAPES:
        made = AutoModelForCausalLM.from_pretrained(model, dtype=form).to(device)
        return made.eval().requires_grad_(False)
    torch.manual_seed(SEED)
    with torch.device(device):
        made = AutoModelForCausalLM.from_config(config_of(model), dtype=form)
    return made.eval().requires_grad_(False)


def encode(model: str, text: str) -> tuple[int, ...]:
    tokenizer = letters(512) if model in SHAPES else AutoTokenizer.from_pretrained(model)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def folder(model: str) -> Path:
    """Where a server can load it from. A shape is written below the system's temporary folder, once."""
    if model not in SHAPES:
        return Path(model).resolve()
    home = Path(tempfile.gettempdir(), f"hearth-bench-{os.getuid()}-{model}")
    if not home.exists():
        transformers.utils.logging.disable_progress_bar()
        unfinished = Path(tempfile.mkdtemp())
        build(model, "bfloat16", "cpu").save_pretrained(unfinished)
        letters(config_of(model).vocab_size).save_pretrained(unfinished)
        finish(unfinished, home)
    return home


def finish(unfinished: Path, home: Path) -> None:
    """Move it to its place, unless somebody else has written the same there meanwhile."""
    try:
        unfinished.rename(home)
    except OSError:
        if not home.exists():
            raise


def letters(vocab: int) -> PreTrainedTokenizerFast:
    """A token for each byte, a text for nearly every other id, so that an answer's tokens can be seen."""
    texts = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
    texts += [f"w{id}" for id in range(len(texts), vocab - len(MARKS))] + [*MARKS]
    made = Tokenizer(forms.BPE(vocab={text: id for id, text in enumerate(texts)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)
