"""Tensor subclasses that replace a model's weights and whose values are stored in native matrices.

To torch and to a model's code they are tensors of the same shape, dtype and device. Matmuls and embedding
look-ups are computed natively; any other function gets the values, unpacked for this call. Knows torch's
functions; not which weights a model has.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from inference.model.quantization.packed_gradient import PackedProduct


class WeightMatrix(Protocol):
    """A packed weight (outputs, inputs): a PackedMatrix on a CPU, a DeviceMatrix on a GPU."""

    @property
    def nbytes(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) in float32 or bfloat16 → (…, outputs) in the same dtype, with the bias added."""
        ...

    def rows(self, ids: Tensor) -> Tensor:
        """The dequantized rows of ids (…): (…, inputs), float32."""
        ...

    def unpack(self, dtype: torch.dtype) -> Tensor:
        """The dequantized weight (outputs, inputs), rounded to the dtype."""
        ...

    def unpacked_ranges(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """The first row and the dequantized values of each range of rows, rounded to the dtype."""
        ...

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """gradient (…, outputs) @ the dequantized weight: (…, inputs), in the same dtype."""
        ...


class UnpackCount:
    """How often a weight or a part of it was unpacked, which is slow; shared by the parts of a weight."""

    def __init__(self) -> None:
        self.count = 0


class PackedTensor(Tensor):
    """A tensor without storage, whose values are in native matrices."""

    unpack_count: UnpackCount

    @property
    def num_unpacked(self) -> int:
        return self.unpack_count.count

    def values(self) -> Tensor:
        """Unpack the weight into a new plain tensor."""
        raise NotImplementedError

    def with_dtype(self, dtype: torch.dtype) -> "PackedTensor":
        """The same values for inputs of another dtype; gradients are multiplied as before."""
        raise NotImplementedError

    def detach(self) -> "PackedTensor":
        """Return self, as there are no gradients; nn.Parameter calls this."""
        return self

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func)
        result = None if rule is None else rule(*args, **(kwargs or {}))
        if result is not None:
            return result
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch.inference_mode(False):  # results must be ordinary tensors, as with a parameter
            args, kwargs = tree_map_only(PackedTensor, lambda native: native.values(), (args, kwargs or {}))
            return func(*args, **kwargs)


class PackedWeight(PackedTensor):
    """A packed weight of two dimensions.

    matrix          the values
    values_dtype    its dtype, without the detour that torch takes to read an attribute of a tensor subclass
    gradient_dtype  in which gradients are multiplied with it: the dtype that it was packed from
    bias            the parameter whose values the matrix adds to its outputs; None if it adds none
    is_transposed   the weight is the transpose of the matrix: (inputs, outputs)
    """

    matrix: WeightMatrix
    values_dtype: torch.dtype
    gradient_dtype: torch.dtype
    bias: Tensor | None
    is_transposed: bool

    @staticmethod
    def __new__(
        cls: type["PackedWeight"],
        matrix: WeightMatrix,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        bias: Tensor | None,
        is_transposed: bool,
    ) -> "PackedWeight":
        weight: PackedWeight = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=matrix.device)
        weight.matrix, weight.values_dtype, weight.unpack_count = matrix, dtype, UnpackCount()
        weight.gradient_dtype = dtype
        weight.bias, weight.is_transposed = bias, is_transposed
        return weight

    def values(self) -> Tensor:
        self.unpack_count.count += 1
        values = self.matrix.unpack(self.dtype)
        return values.T if self.is_transposed else values

    def transposed_view(self) -> "PackedWeight":
        """The transpose, with the same matrix."""
        weight = PackedWeight(self.matrix, self.shape[::-1], self.dtype, self.bias, not self.is_transposed)
        weight.unpack_count, weight.gradient_dtype = self.unpack_count, self.gradient_dtype
        return weight

    def with_dtype(self, dtype: torch.dtype) -> "PackedWeight":
        weight = PackedWeight(self.matrix, self.shape, dtype, self.bias, self.is_transposed)
        weight.unpack_count, weight.gradient_dtype = self.unpack_count, self.gradient_dtype
        return weight


class PackedExperts(PackedTensor):
    """The stacked weights of a layer's experts, (experts, …), with one matrix per expert."""

    members: list[PackedWeight]

    @staticmethod
    def __new__(cls: type["PackedExperts"], members: list[PackedWeight]) -> "PackedExperts":
        shape = (len(members), *members[0].shape)
        stack: PackedExperts = Tensor._make_wrapper_subclass(
            cls, shape, dtype=members[0].dtype, device=members[0].device
        )
        stack.members, stack.unpack_count = members, UnpackCount()
        for member in members:
            member.unpack_count = stack.unpack_count
        return stack

    def values(self) -> Tensor:
        return torch.stack([member.values() for member in self.members])

    def with_dtype(self, dtype: torch.dtype) -> "PackedExperts":
        return PackedExperts([member.with_dtype(dtype) for member in self.members])


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, is_transposed: bool = False
) -> Tensor | None:
    """input × matrix + bias; None if the bias is not the matrix's, or the dtypes differ."""
    if not isinstance(weight, PackedWeight) or weight.is_transposed is not is_transposed:
        return None
    if bias is not weight.bias or input.dtype != weight.values_dtype:
        return None
    if input.requires_grad and torch.is_grad_enabled():
        return PackedProduct.apply(input, weight.matrix, weight.gradient_dtype)
    return weight.matrix.linear(input)


def addmm(bias: Tensor, input: Tensor, weight: Tensor, **scaled: Any) -> Tensor | None:
    """torch.addmm as called by transformers' Conv1D, whose weight is (inputs, outputs)."""
    return None if scaled else linear(input, weight, bias, is_transposed=True)


def matmul(input: Tensor, weight: Tensor) -> Tensor | None:
    return linear(input, weight, is_transposed=True)


def transpose(weight: Tensor) -> Tensor | None:
    return weight.transposed_view() if isinstance(weight, PackedWeight) else None


def embedding(
    input: Tensor, weight: Tensor, *, max_norm: float | None = None, **training: Any
) -> Tensor | None:
    if max_norm is not None or not isinstance(weight, PackedWeight) or weight.is_transposed:
        return None
    return weight.matrix.rows(input).to(weight.values_dtype)


def itself(weight: Tensor) -> Tensor:
    """weight.data: a packed weight has no plain tensor inside."""
    return weight


def expert_of(stack: Tensor, index: Any) -> Tensor | None:
    """stack[index] for one expert, by an int or an int64 scalar tensor; None for any other index."""
    if not isinstance(stack, PackedExperts):
        return None
    number = isinstance(index, int) or (isinstance(index, Tensor) and index.dtype == torch.int64)
    return stack.members[int(index)] if number and torch.as_tensor(index).dim() == 0 else None


def bmm(input: Tensor, stack: Tensor) -> Tensor | None:
    """torch.bmm of input (experts, T, inputs), as Llama 4 multiplies it with all experts."""
    if not isinstance(stack, PackedExperts):
        return None
    products = [product_of(rows, member) for rows, member in zip(input, stack.members, strict=True)]
    return None if any(each is None for each in products) else torch.stack(products)  # type: ignore[arg-type]


def product_of(rows: Tensor, expert: PackedWeight) -> Tensor | None:
    """matmul. On a CPU the rows of zeros, of tokens that the expert does not have, are not multiplied."""
    if rows.device.type != "cpu" or (rows.requires_grad and torch.is_grad_enabled()):
        return matmul(rows, expert)
    is_used = rows.any(-1)
    if (products := matmul(rows[is_used], expert)) is None:
        return None
    return rows.new_zeros(len(rows), expert.shape[1]).masked_scatter_(is_used[:, None], products)


# torch function → native implementation, which returns None for calls that it does not support.
RULES: Mapping[Any, Callable[..., Tensor | None]] = {
    functional.linear: linear,
    functional.embedding: embedding,
    torch.addmm: addmm,
    torch.bmm: bmm,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
    Tensor.__getitem__: expert_of,
    Tensor.data.__get__: itself,  # type: ignore[attr-defined]
    Tensor.T.__get__: transpose,  # type: ignore[attr-defined]
    Tensor.t: transpose,
}
