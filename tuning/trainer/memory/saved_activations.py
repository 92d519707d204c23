"""The bytes that autograd keeps of a forward pass, measured by running the model on the meta device.

Knows torch's autograd and transformers' registries of attention functions; knows no architecture.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from transformers import AttentionInterface, AttentionMaskInterface

from checks.memory.meta_mode import MetaMode, without_autocast

ATTENTION = "training_plan"  # name of the attention that saves what a fused kernel saves


class FusedAttention(torch.autograd.Function):
    """Saves what torch's fused attention saves: its inputs, its output and a float32 number for each query.

    On the meta device torch's own attention computes, and would save, the whole matrix of scores.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(
            query, key, value, output, query.new_empty(query.shape[:-1], dtype=torch.float32)
        )
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise NotImplementedError("a plan has no backward pass")


def planned_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    return FusedAttention.apply(query, key, value).transpose(1, 2), None


def no_mask(*args: Any, **kwargs: Any) -> None:
    """Causal rows without padding need no mask."""


AttentionInterface.register(ATTENTION, planned_attention)
AttentionMaskInterface.register(ATTENTION, no_mask)


class SavedBytes:
    """Counts the storages that autograd saves, each once. Parameters do not count."""

    def __init__(self, model: Any) -> None:
        tensors = (*model.parameters(), *model.buffers())
        self._known = {tensor.untyped_storage()._cdata: tensor for tensor in tensors}
        self.total = 0

    def pack(self, tensor: Tensor) -> Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in self._known:
            self._known[key] = tensor  # kept alive, so that no other storage gets its address
            self.total += tensor.untyped_storage().nbytes()
        return tensor


@contextmanager
def counting_saved_bytes(model: Any) -> Iterator[SavedBytes]:
    """Within the block, what autograd saves on the meta device is counted."""
    counter = SavedBytes(model)
    with MetaMode(), saved_tensors_hooks(counter.pack, lambda tensor: tensor):
        yield counter


def saved_bytes(model: Any, num_tokens: int) -> int:
    """The bytes that the layers of a model keep for the backward pass of `num_tokens` tokens.

    The model is on the meta device, with its adapters inserted; logits are not computed.
    """
    model.set_attn_implementation(ATTENTION)
    ids = torch.zeros(1, num_tokens, dtype=torch.long, device="meta")
    with counting_saved_bytes(model) as counter, without_autocast():
        output = model.base_model(input_ids=ids, use_cache=False)
        del output
    return counter.total
