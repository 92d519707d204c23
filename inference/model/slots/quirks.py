"""Modules that guess positions from the cache's length, told each row's own instead.

One function a guess, chosen by what a module has, not by its model's name. Outside of a call, and where the
guess is right, a module does what it did.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.slots.call import Call, current


def mend(model: PreTrainedModel) -> None:
    """Mend every module that guesses; those mended before are left alone."""
    for module in model.modules():
        for guesses, mended in QUIRKS:
            if not hasattr(module, "mended") and guesses(module):
                mended(module)
                module.mended = True


def uneven() -> Call | None:
    """The current call, if a position guessed from the cache's length would be wrong in it."""
    call = current()
    return None if call is None or call.even else call


def slices_a_mask(module: Any) -> bool:
    """GPT-Neo: keeps a (1, 1, P, P) mask, causal or local, and takes the last q of its first n rows."""
    bias = module._buffers.get("bias")
    return bias is not None and bias.dim() == 4 and bias.dtype is torch.bool


def mend_mask(module: Any) -> None:
    bias = module._buffers.pop("bias")
    module.bias = MaskRows(bias)


class MaskRows:
    """Sliced like the mask it stands for, answers with the rows of the call's positions, (R, 1, q, n)."""

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask

    def __getitem__(self, key: tuple[slice, ...]) -> torch.Tensor:
        call = uneven()
        if call is None:
            return self.mask[key]
        return self.mask[0, 0][call.copies.on(self.mask.device, call.positions)][:, None, :, : key[3].stop]


def biases_by_distance(module: Any) -> bool:
    """T5 and its kin: a learned bias by distance, computed for the last q of n positions."""
    return hasattr(module, "compute_bias") and getattr(module, "is_decoder", False)


def mend_bias(module: Any) -> None:
    """The last position's bias holds that of every distance; each row takes those from its own position."""
    guess = module.compute_bias

    def compute_bias(query_length: int, key_length: int, device: Any = None, **kwargs: Any) -> torch.Tensor:
        call = uneven()
        if call is None:
            return guess(query_length, key_length, device=device, **kwargs)
        last = guess(1, key_length, device=device, past_seen_tokens=key_length - 1)  # (1, H, 1, n)
        columns = torch.arange(key_length, device=last.device)
        distances = (call.positions.to(last.device)[:, :, None] - columns).clamp(min=0)  # (R, q, n)
        return last[0, :, 0].flip(-1)[:, distances].transpose(0, 1)  # (R, H, q, n)

    module.compute_bias = compute_bias


def embeds_by_length(module: Any) -> bool:
    """BART, Pegasus, M2M100, Whisper and their kin: embed the q positions behind the cache's length."""
    return not list(module.children()) and "past_key_values_length" in inputs(module)


def mend_embedding(module: Any) -> None:
    """Embed the positions of each row, unless the model hands them on by itself."""
    guess, accepts = module.forward, inspect.signature(module.forward)

    def forward(*args: Any, **kwargs: Any) -> torch.Tensor:
        call = uneven()
        given = accepts.bind(*args, **kwargs).arguments
        told = given.get("position_ids")
        if call is None or (told is not None and told.shape == call.positions.shape):
            return guess(*args, **kwargs)
        if "position_ids" in accepts.parameters:
            first = next(iter(given.values()))
            embedded = guess(first, position_ids=call.positions.flatten())
            return embedded.reshape(call.num_rows, call.width, -1)  # (R, q, d)
        return counted(guess, next(iter(accepts.parameters)) == "input_ids", module, call)

    module.forward = forward


def counted(guess: Callable[..., torch.Tensor], tokens: bool, module: Any, call: Call) -> torch.Tensor:
    """A module that counts `tokens`, or takes their shape, counts n of them: each row's own, (R, q, d)."""
    shape, counts = (1, call.columns), (getattr(module, "padding_idx", None) or 0) + 1  # padding does not
    table = guess(torch.full(shape, counts, device=call.positions.device) if tokens else shape)
    return table.reshape(call.columns, -1)[call.positions.to(table.device)]


def counts_from_padding(module: Any) -> bool:
    """RoBERTa and its kin: left alone, positions begin behind the padding's index; told, they are as told."""
    counts = hasattr(module, "create_position_ids_from_input_ids") and hasattr(module, "padding_idx")
    return counts and "position_ids" in inputs(module)


def mend_count(module: Any) -> None:
    guess = module.forward

    def forward(*args: Any, position_ids: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        call = current()
        told = position_ids if call is None else call.positions + module.padding_idx + 1
        return guess(*args, position_ids=told, **kwargs)

    module.forward = forward


def inputs(module: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(module.forward).parameters


Guess = Callable[[Any], bool]
QUIRKS: tuple[tuple[Guess, Callable[[Any], None]], ...] = (
    (slices_a_mask, mend_mask),
    (biases_by_distance, mend_bias),
    (counts_from_padding, mend_count),
    (embeds_by_length, mend_embedding),
)
