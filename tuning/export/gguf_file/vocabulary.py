"""Writes a tokenizer into a GGUF file: byte-level BPE, as Llama 3 and Qwen have it.

llama.cpp knows the way that a text is split before BPE by a name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf

from inference.errors import BadRequest
from inference.untrusted_json import read_json_object

# Regular expression of the pre-tokenizer -> llama.cpp's name, from llama-vocab.cpp.
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS = {LLAMA_3: "llama-bpe", LLAMA_3.replace("{1,3}", ""): "qwen2"}
UNKNOWN_PRE_TOKENIZER = "default"
TYPE = gguf.TokenType


def add_vocabulary(writer: gguf.GGUFWriter, tokenizer: Any, folder: Path, vocab_size: int) -> list[str]:
    """Returns what the user must know. Raises BadRequest for a tokenizer that is not byte-level BPE."""
    raw = read_json_object(folder / "tokenizer.json")
    model = raw["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        rule = (
            "gguf is written for byte-level BPE tokenizers alone: use safetensors and llama.cpp's converter"
        )
        raise BadRequest("format", rule)
    tokens, types = token_lists(tokenizer, raw["added_tokens"], vocab_size)
    pre = pre_tokenizer_name(raw.get("pre_tokenizer") or {})
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    )
    add_special_tokens(writer, tokenizer)
    if pre != UNKNOWN_PRE_TOKENIZER:
        return []
    return ["llama.cpp has no name for this tokenizer's way to split text: it may read other tokens"]


def token_lists(
    tokenizer: Any, added_tokens: list[dict[str, Any]], vocab_size: int
) -> tuple[list[str], list[int]]:
    """Text and type of each id. Ids without a token get a name that no text has."""
    by_id = {id: token for token, id in tokenizer.get_vocab().items()}
    added = {token["id"]: TYPE.CONTROL if token["special"] else TYPE.USER_DEFINED for token in added_tokens}
    tokens = [by_id.get(id, f"[PAD{id}]") for id in range(vocab_size)]
    types = [added.get(id, TYPE.NORMAL if id in by_id else TYPE.UNUSED) for id in range(vocab_size)]
    return tokens, [int(kind) for kind in types]


def pre_tokenizer_name(pre_tokenizer: dict[str, Any]) -> str:
    patterns = list(split_patterns(pre_tokenizer))
    if not patterns and pre_tokenizer.get("type") == "ByteLevel":
        return "gpt-2"
    return PRE_TOKENIZERS.get(patterns[0] if len(patterns) == 1 else "", UNKNOWN_PRE_TOKENIZER)


def split_patterns(pre_tokenizer: dict[str, Any]) -> Iterator[str]:
    for step in pre_tokenizer.get("pretokenizers", [pre_tokenizer]):
        if step.get("type") == "Split":
            yield step["pattern"].get("Regex", "")


def add_special_tokens(writer: gguf.GGUFWriter, tokenizer: Any) -> None:
    ids = (("bos", tokenizer.bos_token_id), ("eos", tokenizer.eos_token_id), ("pad", tokenizer.pad_token_id))
    for name, id in ids:
        if id is not None:
            getattr(writer, f"add_{name}_token_id")(id)
    writer.add_add_bos_token(adds_bos(tokenizer))
    if isinstance(tokenizer.chat_template, str):
        writer.add_chat_template(tokenizer.chat_template)


def adds_bos(tokenizer: Any) -> bool:
    """Whether a text's ids begin with the beginning-of-sequence token."""
    ids = tokenizer("a")["input_ids"]
    return bool(ids) and tokenizer.bos_token_id is not None and ids[0] == tokenizer.bos_token_id
