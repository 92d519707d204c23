"""What a model's own settings say about its output: how wide its logits are, what a decoder begins with."""

from typing import Any

from transformers import PreTrainedModel


def vocab(model: PreTrainedModel) -> int:
    """Width of the logits."""
    output = model.get_output_embeddings()
    return int(getattr(output, "out_features", 0) or model.config.get_text_config().vocab_size)


def start_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """What the decoder begins with; a token that `generate` would force to come first stands with it."""
    start = setting(model, "decoder_start_token_id")
    found = [
        setting(model, "bos_token_id") if start is None else start,
        setting(model, "forced_bos_token_id"),
    ]
    return tuple(token for token in found if token is not None)


def setting(model: PreTrainedModel, name: str) -> Any:
    """From the settings for generation, else from the model's."""
    value = getattr(model.generation_config, name, None)
    return getattr(model.config, name, None) if value is None else value
