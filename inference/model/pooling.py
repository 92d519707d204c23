"""Embeddings: a text's hidden states, mean-pooled into one vector.

The hidden states are those of the last layer after the final norm; for an encoder-decoder model those of its
encoder. Their mean over all tokens is scaled to length 1, in float32. Runs the model without a cache; the
runner's KV memory is neither read nor written. Knows nothing of text.
"""

from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch.nn.functional import normalize
from transformers import PreTrainedModel

from inference.errors import NotImplementedHere
from inference.model.forward_signature import accepts

REFUSED = "this model does not return hidden states of its tokens, so it cannot compute embeddings"

Vector = tuple[float, ...]


def embed(model: PreTrainedModel, inputs: Sequence[Sequence[int]]) -> Generator[None, None, list[Vector]]:
    """Return one vector per input; yields after each, so that other work can run in between.

    Each input is computed alone. Raises NotImplementedHere if the model has no hidden states per token.
    """
    submodel = get_submodel(model)
    vectors = []
    for ids in inputs:
        vectors.append(pool_hidden_states(submodel, torch.tensor([ids], device=model.device)))
        yield
    return vectors


def get_submodel(model: PreTrainedModel) -> Any:
    """The submodel that returns hidden states. Raises NotImplementedHere if there is none."""
    submodel = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    if submodel is model:
        raise NotImplementedHere(REFUSED)
    return submodel


@torch.inference_mode()
def pool_hidden_states(submodel: Any, ids: torch.Tensor) -> Vector:
    """The pooled vector of ids (1, n), of length 1. Raises NotImplementedHere for other hidden states."""
    no_cache_kwargs = {"use_cache": False} if accepts(submodel, "use_cache") else {}
    output = submodel(input_ids=ids, **no_cache_kwargs)
    hidden = getattr(output, "last_hidden_state", None)  # (1, n, d)
    if hidden is None or hidden.shape[:2] != ids.shape:
        raise NotImplementedHere(REFUSED)
    return tuple(normalize(hidden[0].float().mean(0), dim=0).tolist())  # sync
