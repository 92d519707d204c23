"""Small tokenizers, trained here: byte-level BPE, SentencePiece with byte fallback, WordPiece."""

import json
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and doesn't look back. " * 4,
    "def f(x):\n    return x + 1  # adds one\n" * 2,
    "Zażółć gęślą jaźń; ça va? Füße. 東京は日本の首都です。 中文字符",
    "naïve cafe\u0301 😀 👩‍👩‍👧 🇫🇷 done",
)
SPECIAL = ["<unk>", "<s>", "</s>", "<|eot|>"]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, special_tokens=SPECIAL)
    tokenizer.train_from_iterator(TEXTS[:2], trainer)
    return tokenizer


def sentencepiece() -> Tokenizer:
    """Like Llama 2's: a space is ▁, and characters outside of the vocabulary are encoded byte by byte."""
    names = [*SPECIAL, *(f"<0x{value:02X}>" for value in range(256))]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    # For training: merges within words.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=names)
    tokenizer.train_from_iterator(TEXTS[:2], trainer)
    written = json.loads(tokenizer.to_str())
    written["pre_tokenizer"] = None
    written["added_tokens"] = [token for token in written["added_tokens"] if token["content"] in SPECIAL]
    return Tokenizer.from_str(json.dumps(written))


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


KINDS = {"byte-level": byte_level, "sentencepiece": sentencepiece, "wordpiece": wordpiece}


@cache
def tokenizer(kind: str) -> Any:
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    extra = {"additional_special_tokens": ["<|eot|>"]}
    return PreTrainedTokenizerFast(tokenizer_object=KINDS[kind](), **names, **extra)
