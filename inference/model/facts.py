"""What a loaded model says about itself: how wide its logits are, where its answers begin and end.

Knows transformers' models and tokenizers; changes nothing.
"""

from typing import Any

from inference.errors import BadRequest

# Tokens with which chat templates end a turn. They end an answer where the template uses them.
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


def vocab_of(model: Any) -> int:
    weight = getattr(model.get_output_embeddings(), "weight", None)
    return int(weight.shape[0] if weight is not None else model.config.get_text_config().vocab_size)


def ends_of(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end an answer: those the model and the tokenizer name, and the chat template's end of turn."""
    texts = getattr(model.config.get_text_config(decoder=True), "eos_token_id", None)
    named = (model.generation_config.eos_token_id, texts, tokenizer.eos_token_id)
    template = str(tokenizer.chat_template or "")
    special = tokenizer.get_added_vocab()
    turns = {special[text] for text in TURN_ENDS if text in template and text in special}
    return frozenset(turns.union(*map(as_ids, named)))


def start_ids_of(model: Any) -> tuple[int, ...]:
    """What the decoder of an encoder-decoder model begins with: its start token, and one that must follow."""
    told = model.generation_config
    starts = (
        told.decoder_start_token_id,
        getattr(model.config, "decoder_start_token_id", None),
        told.bos_token_id,
    )
    start = next((as_ids(start) for start in starts if start is not None), None)
    if start is None:
        raise BadRequest("MODEL_NAME", "names no decoder_start_token_id in its generation_config.json")
    return start + as_ids(told.forced_bos_token_id)


def as_ids(value: Any) -> tuple[int, ...]:
    """A token id, several, or none."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (int(value),)
