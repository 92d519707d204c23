"""What a model makes of a text, as one vector: its hidden states, pooled.

They are those of the last layer, behind the final norm (an encoder-decoder's: its encoder's), averaged over
all the text's tokens and scaled to length 1, in float32. Knows a model, outside of any call: the rows' memory
is neither read nor written. Nothing of text.
"""

import inspect
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch.nn.functional import normalize
from transformers import PreTrainedModel

from inference.errors import NotImplementedHere

REFUSED = "this model's hidden states cannot be had, so it makes no embeddings"

Vector = tuple[float, ...]


def embed(model: PreTrainedModel, inputs: Sequence[Sequence[int]]) -> Generator[None, None, list[Vector]]:
    """A vector for each input, computed alone, one a step. Raises NotImplementedHere where there is none."""
    body = body_of(model)
    vectors = []
    for ids in inputs:
        vectors.append(pooled(body, torch.tensor([ids], device=model.device)))
        yield
    return vectors


def body_of(model: PreTrainedModel) -> Any:
    """The part of the model that ends with hidden states. Raises NotImplementedHere."""
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    if body is model:
        raise NotImplementedHere(REFUSED)
    return body


@torch.inference_mode()
def pooled(body: Any, ids: torch.Tensor) -> Vector:
    """The vector of the text of ids (1, n), of length 1. Raises NotImplementedHere."""
    uncached = {"use_cache": False} if "use_cache" in inspect.signature(body.forward).parameters else {}
    output = body(input_ids=ids, **uncached)
    hidden = getattr(output, "last_hidden_state", None)  # (1, n, d)
    if hidden is None or hidden.shape[:2] != ids.shape:
        raise NotImplementedHere(REFUSED)
    return tuple(normalize(hidden[0].float().mean(0), dim=0).tolist())  # sync
