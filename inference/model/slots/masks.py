"""Attention masks for rows that stand at different positions, asked of the model's own pattern.

Stands in transformers' mask registry. Knows the current call; leaves everything else to transformers.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, bidirectional_mask_function

from inference.model.slots.call import Call, current

Pattern = Callable[..., torch.Tensor]


def install() -> None:
    """Put row_mask in the place of transformers' masks. Process-wide; changes nothing outside of a call."""
    for name, function in MASKS.items():
        ALL_MASK_ATTENTION_FUNCTIONS.register(name, function)


def standing_in(original: Callable[..., Any], additive: bool) -> Callable[..., Any]:
    def mask(*args: Any, **kwargs: Any) -> Any:
        call = current()
        if call is None or args:
            return original(*args, **kwargs)
        if kwargs["mask_function"] is bidirectional_mask_function:
            return source_mask(original, kwargs, additive)
        if call.even:
            return original(**kwargs)
        return form(row_mask(call, kwargs["mask_function"], kwargs["kv_length"]), additive, kwargs)

    return mask


def row_mask(call: Call, pattern: Pattern, columns: int) -> torch.Tensor:
    """Which columns each new token sees, (R, 1, q, n): the pattern at each row's own positions.

    transformers asks a pattern with the arange of the queries; nothing in a pattern needs them to be equal
    for all rows.
    """
    device = call.positions.device
    row = torch.arange(call.num_rows, device=device)[:, None, None, None]
    head = torch.zeros((1, 1, 1, 1), dtype=torch.int64, device=device)
    column = torch.arange(columns, device=device)[None, None, None]
    seen = pattern(row, head, call.positions[:, None, :, None], column)
    return seen.expand(call.num_rows, 1, call.width, columns)


def source_mask(original: Callable[..., Any], kwargs: dict[str, Any], additive: bool) -> Any:
    """Which of an encoder's outputs each row sees, (R, 1, q, K), from the (R, K) mask the call came with."""
    given = kwargs.get("attention_mask")
    if given is None:
        return original(**kwargs)
    seen = given.bool()[:, None, None, :].expand(-1, 1, kwargs["q_length"], -1)
    return form(seen, additive, kwargs)


def form(seen: torch.Tensor, additive: bool, kwargs: dict[str, Any]) -> torch.Tensor:
    """`seen` itself, or what is added to the scores: 0 where seen, else the lowest number of the dtype."""
    if not additive:
        return seen
    dtype = kwargs.get("dtype", torch.float32)
    zero = torch.zeros((), dtype=dtype, device=seen.device)
    return torch.where(seen, zero, torch.finfo(dtype).min)


MASKS = {
    name: standing_in(ALL_MASK_ATTENTION_FUNCTIONS[name], additive)
    for name, additive in (("sdpa", False), ("eager", True))
}
