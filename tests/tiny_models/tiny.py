"""Tiny models on disk: the smallest folders that transformers loads, made in milliseconds."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
SPECIAL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")

LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each byte, and a ChatML template."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {text: id for id, text in enumerate((*SPECIAL, *letters))}
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=TEMPLATE,
    )


def llama(folder: Path, **changes: Any) -> Path:
    """A Llama of 50 thousand bfloat16 weights."""
    return save_model(folder, transformers.LlamaForCausalLM, transformers.LlamaConfig(**LLAMA | changes))


def save_model(folder: Path, family: Any, config: Any, **saving: Any) -> Path:
    torch.manual_seed(0)
    family(config).to(torch.bfloat16).save_pretrained(folder, **saving)
    tokenizer().save_pretrained(folder)
    return folder


def edit(path: Path, **changes: Any) -> None:
    """Changes values of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
