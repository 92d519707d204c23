"""A model's own attention over keys and values that are rounded to 8 bits, as pages of blocks keep them.

Knows transformers' registry of attention functions, and the blocks; neither pages nor runners.
"""

import sys
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.paged.attention import PagedAttention
from inference.model.paged.q8_0 import dequantize, quantize
from inference.model.reference import Reference

EAGER = "eager"
NAMES = {own: f"hearth_rounded_{own}" for own in (EAGER, "sdpa")}  # what computes the attention → our name


def rounded_reference(model: PreTrainedModel) -> Reference:
    """The logits of the model's own forward pass, all keys and values of which are rounded to 8 bits.

    Attention that does not go through the registry keeps its keys and values; no runner has pages for it.
    """
    with PagedAttention(model).installed(NAMES.get(model.config._attn_implementation, NAMES[EAGER])):
        return Reference(model)


def attend_rounded(
    own: str,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The attention `own` of query (B, H, T, D), with key (B, G, T, D) and value (B, G, T, E) rounded."""
    return attention_of(module, own)(module, query, rounded(key), rounded(value), *args, **kwargs)


def attention_of(module: torch.nn.Module, own: str) -> Any:
    """transformers' function; each file of a model has its own eager one."""
    return (
        sys.modules[type(module).__module__].eager_attention_forward
        if own == EAGER
        else ALL_ATTENTION_FUNCTIONS[own]
    )


def rounded(states: torch.Tensor) -> torch.Tensor:
    return dequantize(quantize(states), states.shape[-1], states.dtype)


for own, name in NAMES.items():
    ALL_ATTENTION_FUNCTIONS.register(name, partial(attend_rounded, own))
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS[own])
