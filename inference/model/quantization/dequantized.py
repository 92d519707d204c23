"""A mode in which torch computes with the dequantized values of packed weights: it verifies native products.

Knows packed weights; not what is compared.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from inference.model.quantization.packed_tensor import PackedExperts, PackedWeight, expert_of

LARGE = 1 << 23  # values of a weight that is unpacked some rows at a time


class Dequantized(TorchFunctionMode):
    """Inside this mode torch computes everything with packed weights' dequantized values.

    Indexing one expert still returns a packed weight, so that the other experts are not unpacked. A large
    weight, such as an output layer, is unpacked some rows at a time.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        expert = expert_of(*args) if func is Tensor.__getitem__ else None
        if expert is not None:
            return expert
        if func in IN_SLICES and (result := IN_SLICES[func](*args, **(kwargs or {}))) is not None:
            return result
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def large_weight(weight: Tensor) -> PackedWeight | None:
    """The weight if some of its rows are unpacked at a time."""
    is_large = weight.numel() > LARGE
    return weight if is_large and isinstance(weight, PackedWeight) and not weight.is_transposed else None


def unpacked_ranges(weight: PackedWeight) -> Iterator[tuple[int, Tensor]]:
    """The first row and the values of each range of rows."""
    weight.unpack_count.count += 1
    return weight.matrix.unpacked_ranges(weight.values_dtype)


def linear_by_rows(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if (large := large_weight(weight)) is None:
        return None
    product = torch.cat([functional.linear(input, rows) for _, rows in unpacked_ranges(large)], -1)
    return product if bias is None else product + bias


def embedding_by_rows(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    *_: Any,
    **training: Any,
) -> Tensor | None:
    if max_norm is not None or (large := large_weight(weight)) is None:
        return None
    result = torch.empty(*input.shape, large.shape[1], dtype=large.values_dtype, device=input.device)
    for first, rows in unpacked_ranges(large):
        is_here = (input >= first) & (input < first + len(rows))
        result[is_here] = rows[input[is_here] - first]
    return result


def bmm_by_experts(input: Tensor, stack: Tensor) -> Tensor | None:
    if not isinstance(stack, PackedExperts):
        return None
    return torch.stack([rows @ expert.values() for rows, expert in zip(input, stack.members, strict=True)])


# torch function → the same with a few rows of a large weight, or one expert, at a time; None: another call.
IN_SLICES: Mapping[Any, Callable[..., Tensor | None]] = {
    functional.linear: linear_by_rows,
    functional.embedding: embedding_by_rows,
    torch.bmm: bmm_by_experts,
}
