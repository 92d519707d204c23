"""Attention and attention masks for rows at different positions, in transformers' registries.

SDPA over grouped keys and values does not repeat them; masks follow the model's own mask pattern at the
positions of each row. Knows the current call; transformers' own functions compute everything else.
"""

from collections.abc import Callable
from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, bidirectional_mask_function
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.attention import attend_grouped, effective_kwargs
from inference.model.contiguous.call import ForwardCall, current_call

Pattern = Callable[..., torch.Tensor]

SDPA = ALL_ATTENTION_FUNCTIONS["sdpa"]


def install() -> None:
    """Replace transformers' functions. Process-wide; outside of a ForwardCall, nothing changes."""
    ALL_ATTENTION_FUNCTIONS.register("sdpa", attend)
    for name, function in MASKS.items():
        ALL_MASK_ATTENTION_FUNCTIONS.register(name, function)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query (R, H, q, D) over keys and values (R, G, n, D), as (R, q, H, D).

    transformers' own function computes the cases with biases, sinks or a mask for each head, and several
    queries without a mask: for these it does not repeat keys and values either.
    """
    is_grouped = query.shape[1] != key.shape[1]
    is_shared = query.shape[2] == 1 if attention_mask is None else attention_mask.shape[1] == 1
    if current_call() is None or not is_grouped or not is_shared or effective_kwargs(kwargs):
        return SDPA(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    output = attend_grouped(query, key, value, attention_mask, scaling)
    return output.transpose(1, 2).contiguous(), None


def wrap_mask_function(original: Callable[..., Any], additive: bool) -> Callable[..., Any]:
    """A function for transformers' mask registry that builds the masks of the current ForwardCall.

    original  transformers' function, for calls outside of a ForwardCall and where it is right
    additive  whether the mask is added to the scores; else it is bool, True where a token attends
    """

    def mask(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None or args:
            return original(*args, **kwargs)
        if kwargs["mask_function"] is bidirectional_mask_function:
            return encoder_mask(original, kwargs, additive)
        if call.uniform:
            return original(**kwargs)
        return to_mask(row_mask(call, kwargs["mask_function"], kwargs["kv_length"]), additive, kwargs)

    return mask


def row_mask(call: ForwardCall, pattern: Pattern, columns: int) -> torch.Tensor:
    """Which columns each new token attends to, (R, 1, q, n): the pattern at each row's own positions.

    transformers calls a pattern with one range of query positions for all rows; patterns also accept
    positions that differ between rows.
    """
    device = call.positions.device
    row = torch.arange(call.num_rows, device=device)[:, None, None, None]
    head = torch.zeros((1, 1, 1, 1), dtype=torch.int64, device=device)
    column = torch.arange(columns, device=device)[None, None, None]
    visible = pattern(row, head, call.positions[:, None, :, None], column)
    return visible.expand(call.num_rows, 1, call.width, columns)


def encoder_mask(original: Callable[..., Any], kwargs: dict[str, Any], additive: bool) -> Any:
    """Which encoder outputs each row attends to, (R, 1, q, K), from the model input's (R, K) padding mask."""
    padding_mask = kwargs.get("attention_mask")
    if padding_mask is None:
        return original(**kwargs)
    visible = padding_mask.bool()[:, None, None, :].expand(-1, 1, kwargs["q_length"], -1)
    return to_mask(visible, additive, kwargs)


def to_mask(visible: torch.Tensor, additive: bool, kwargs: dict[str, Any]) -> torch.Tensor:
    """`visible`, or as an additive mask: 0 where visible, else the lowest number of the dtype."""
    if not additive:
        return visible
    dtype = kwargs.get("dtype", torch.float32)
    zero = torch.zeros((), dtype=dtype, device=visible.device)
    return torch.where(visible, zero, torch.finfo(dtype).min)


MASKS = {
    name: wrap_mask_function(ALL_MASK_ATTENTION_FUNCTIONS[name], additive)
    for name, additive in (("sdpa", False), ("eager", True))
}
