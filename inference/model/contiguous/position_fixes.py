"""Patches modules that derive positions from the cache's length: they compute with each row's own positions.

One fix for each way to derive positions, chosen by a module's attributes, not by its model's name. Outside
of a call, and where the derived positions are right, a module computes as before.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.contiguous.call import ForwardCall, current_call
from inference.model.forward_pass.forward_signature import counts_from_padding, forward_parameters


def fix_positions(model: PreTrainedModel) -> None:
    """Patch every module that derives positions from the cache's length. Idempotent."""
    for module in model.modules():
        for matches, apply_fix in POSITION_FIXES:
            if not hasattr(module, "positions_fixed") and matches(module):
                apply_fix(module)
                module.positions_fixed = True


def nonuniform_call() -> ForwardCall | None:
    """The current call, if positions derived from the cache's length would be wrong in it."""
    call = current_call()
    return None if call is None or call.uniform else call


def slices_a_mask(module: Any) -> bool:
    """GPT-Neo: has a (1, 1, P, P) mask buffer, causal or local; reads the last q of its first n rows."""
    bias = module._buffers.get("bias")
    return bias is not None and bias.dim() == 4 and bias.dtype is torch.bool


def fix_mask(module: Any) -> None:
    module.bias = MaskRows(module._buffers.pop("bias"))


class MaskRows:
    """Replaces the mask buffer: a slice of it returns the mask rows of the call's positions, (R, 1, q, n)."""

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask

    def __getitem__(self, key: tuple[slice, ...]) -> torch.Tensor:
        call = nonuniform_call()
        if call is None:
            return self.mask[key]
        return self.mask[0, 0][call.copies.on_device(self.mask.device, call.positions)][
            :, None, :, : key[3].stop
        ]


def biases_by_distance(module: Any) -> bool:
    """T5 and similar models: a learned bias by distance, computed for the last q of n positions."""
    return hasattr(module, "compute_bias") and getattr(module, "is_decoder", False)


def fix_bias(module: Any) -> None:
    """Select each row's biases from those of the last position, which cover every distance."""
    original = module.compute_bias

    def compute_bias(query_length: int, key_length: int, device: Any = None, **kwargs: Any) -> torch.Tensor:
        call = nonuniform_call()
        if call is None:
            return original(query_length, key_length, device=device, **kwargs)
        last = original(1, key_length, device=device, past_seen_tokens=key_length - 1)  # (1, H, 1, n)
        columns = torch.arange(key_length, device=last.device)
        distances = (call.positions.to(last.device)[:, :, None] - columns).clamp(min=0)  # (R, q, n)
        return last[0, :, 0].flip(-1)[:, distances].transpose(0, 1)  # (R, H, q, n)

    module.compute_bias = compute_bias


def embeds_by_length(module: Any) -> bool:
    """BART, Pegasus, M2M100, Whisper and similar models: embed the q positions after the cache's length."""
    return not list(module.children()) and "past_key_values_length" in forward_parameters(module)


def fix_embedding(module: Any) -> None:
    """Embed each row's own positions, unless the model itself passes position ids of the call's shape."""
    original, accepts = module.forward, inspect.signature(module.forward)

    def forward(*args: Any, **kwargs: Any) -> torch.Tensor:
        call = nonuniform_call()
        arguments = accepts.bind(*args, **kwargs).arguments
        positions = arguments.get("position_ids")
        if call is None or (positions is not None and positions.shape == call.positions.shape):
            return original(*args, **kwargs)
        if "position_ids" in accepts.parameters:
            first = next(iter(arguments.values()))
            embedded = original(first, position_ids=call.positions.flatten())
            return embedded.reshape(call.num_rows, call.width, -1)  # (R, q, d)
        return embed_own_positions(original, next(iter(accepts.parameters)) == "input_ids", module, call)

    module.forward = forward


def embed_own_positions(
    original: Callable[..., torch.Tensor], tokens: bool, module: Any, call: ForwardCall
) -> torch.Tensor:
    """Embed n positions, and select each row's own, (R, q, d).

    tokens: whether the module takes token ids, and counts those that are not padding; else it takes a shape.
    """
    shape, counts = (1, call.columns), (getattr(module, "padding_idx", None) or 0) + 1  # an id that counts
    table = original(torch.full(shape, counts, device=call.positions.device) if tokens else shape)
    return table.reshape(call.columns, -1)[call.positions.to(table.device)]


def fix_padding_count(module: Any) -> None:
    """See counts_from_padding."""
    original = module.forward

    def forward(*args: Any, position_ids: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        call = current_call()
        positions = position_ids if call is None else call.positions + module.padding_idx + 1
        return original(*args, position_ids=positions, **kwargs)

    module.forward = forward


Matches = Callable[[Any], bool]
POSITION_FIXES: tuple[tuple[Matches, Callable[[Any], None]], ...] = (
    (slices_a_mask, fix_mask),
    (biases_by_distance, fix_bias),
    (counts_from_padding, fix_padding_count),
    (embeds_by_length, fix_embedding),
)
