"""Facts that a loaded model declares: the width of its logits, its decoder start tokens and its stop tokens.

Knows transformers' models and tokenizers; changes nothing.
"""

from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PreTrainedModel
from transformers.utils import GENERATION_CONFIG_NAME

from inference.errors import BadRequest

# Tokens with which chat templates end a turn. They are stop tokens if the model's template contains them.
TURN_ENDS = (
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<turn|>",
    "<|return|>",
)
# Tokens that end a completion of any GGUF file whose vocabulary has them (llama.cpp, src/llama-vocab.cpp,
# special_eog_ids): such a file has no generation_config.json, which names all of them.
GGUF_ENDS = (
    *TURN_ENDS,
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|tool_response>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<end_of_utterance>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
HARMONY = ("<|return|>", "<|call|>")  # of gpt-oss, where "<|end|>" ends a message within a completion


def read_generation_config(folder: Path) -> GenerationConfig | None:
    """The generation_config.json of a folder, for a model that transformers does not load from it itself."""
    if not (folder / GENERATION_CONFIG_NAME).is_file():
        return None
    return GenerationConfig.from_pretrained(folder)


def vocab_size_of(model: PreTrainedModel) -> int:
    """Width of the logits: of all ranks together, and with the rows that pad the vocabulary."""
    output = model.get_output_embeddings()
    if width := getattr(output, "out_features", 0):
        return int(width)
    weight = getattr(output, "weight", None)
    return int(model.config.get_text_config().vocab_size if weight is None else weight.shape[0])


def stop_token_ids_of(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a completion: eos of the model and the tokenizer, and the template's end of turn."""
    texts = getattr(model.config.get_text_config(decoder=True), "eos_token_id", None)
    named = (model.generation_config.eos_token_id, texts, tokenizer.eos_token_id)
    template = str(tokenizer.chat_template or "")
    special = tokenizer.get_added_vocab()
    turns = {special[text] for text in TURN_ENDS if text in template and text in special}
    return frozenset(turns.union(*map(as_ids, named)))


def gguf_stop_token_ids(tokenizer: Any) -> frozenset[int]:
    special = tokenizer.get_added_vocab()
    excluded = "<|end|>" if all(text in special for text in HARMONY) else ""
    return frozenset(special[text] for text in GGUF_ENDS if text in special and text != excluded)


def decoder_start_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Tokens that a decoder begins with: the start token, then the one that `generate` would force.

    The start token is that of `generate` (transformers, generation/utils.py, _prepare_special_tokens); where
    `generate` has none, the config's. Raises BadRequest if the model has no start token.
    """
    generation = model.generation_config
    starts = (
        generation.decoder_start_token_id,
        generation.bos_token_id,
        getattr(model.config, "decoder_start_token_id", None),
    )
    start = next((as_ids(start) for start in starts if start is not None), None)
    if start is None:
        raise BadRequest("MODEL_NAME", "has no decoder_start_token_id in its generation_config.json")
    return start + as_ids(generation.forced_bos_token_id)


def as_ids(value: Any) -> tuple[int, ...]:
    """The token ids of a config value: one id, a list of ids, or None."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (int(value),)
