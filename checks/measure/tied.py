"""Whether a model's head is its embedding, where nothing tells but how many values its files have.

Knows transformers' models without their weights.
"""

from collections.abc import Mapping
from typing import Any

from checks.measure.skeleton import count, skeleton


def tied(raw: Mapping[str, Any], values: int) -> bool:
    """Of a config.json that does not say it. False, too, where so many values are neither with nor without a
    head: files may hold more than the model has, such as tables of frequencies, but never another matrix."""
    model = skeleton({**raw, "tie_word_embeddings": True})
    head = model and model.get_output_embeddings()
    if head is None or head.weight is not model.get_input_embeddings().weight:
        return False
    return bool(abs(values - count(model)) < head.weight.numel() // 2)
