"""A packed weight: it behaves as a tensor, is multiplied natively, and is unpacked for other operations."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from inference.model.quantization.dequantized import Dequantized
from inference.model.quantization.packed_tensor import PackedExperts, PackedWeight
from inference.native.structs import NativeDtype
from tests.model.quantization.torch_matrix import TorchMatrix

OUTPUTS, INPUTS = 12, 8


@pytest.fixture
def plain() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(OUTPUTS, INPUTS)


def native_weight(plain: Tensor, bias: Tensor | None = None, transposed: bool = False) -> PackedWeight:
    """A weight equal to `plain`, or to its transpose if `transposed`."""
    shape = tuple(plain.shape[::-1] if transposed else plain.shape)
    return PackedWeight(TorchMatrix(plain, NativeDtype.F32, bias), shape, plain.dtype, bias, transposed)


def num_uses(weight: PackedWeight) -> int:
    assert isinstance(weight.matrix, TorchMatrix)
    return weight.matrix.used


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": functional.linear,
    "x @ w.T": lambda x, w: x @ w.T,
    "matmul of t()": lambda x, w: torch.matmul(x, w.t()),
    "a method": lambda x, w: x.matmul(w.T),
}
OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "w @ x.T": lambda x, w: w @ x.T,
    "in another dtype": lambda x, w: functional.linear(x.double(), w.double()),
    "with a bias of its own": lambda x, w: functional.linear(x, w, torch.ones(OUTPUTS)),
    "rows": lambda x, w: w[2:5],
    "joined": lambda x, w: torch.cat([w, w.float()]),
    "part of the transpose": lambda x, w: w.T[1:3],
    "sum": lambda x, w: w.sum(0),
}


@torch.inference_mode()
@pytest.mark.parametrize("name", PRODUCTS)
def test_matmuls_are_native(name: str, plain: Tensor) -> None:
    weight, x = native_weight(plain), torch.randn(2, 3, INPUTS)
    assert torch.allclose(PRODUCTS[name](x, weight), PRODUCTS[name](x, plain), atol=1e-6)
    assert num_uses(weight) == 1 and not weight.num_unpacked


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("name", OTHERS)
def test_other_operations_get_the_unpacked_values(
    name: str, mode: Callable[[], object], plain: Tensor
) -> None:
    weight, x = native_weight(plain), torch.randn(3, INPUTS)
    with mode():  # type: ignore[attr-defined]
        result, right = OTHERS[name](x, weight), OTHERS[name](x, plain)
    assert type(result) is Tensor and torch.allclose(result, right, atol=1e-6)
    assert weight.num_unpacked and not num_uses(weight)


@torch.no_grad()
def test_modules_of_torch_and_transformers_compute_with_a_packed_weight(plain: Tensor) -> None:
    layer, transposed, table = (
        nn.Linear(INPUTS, OUTPUTS),
        Conv1D(OUTPUTS, INPUTS),
        nn.Embedding(OUTPUTS, INPUTS),
    )
    x, ids = torch.randn(2, 3, INPUTS), torch.tensor([[1, 5], [0, 11]])
    layer.weight.data, transposed.weight.data, table.weight.data = plain, plain.T.contiguous(), plain
    before = layer(x), transposed(x), table(ids)
    weights = (
        native_weight(plain, layer.bias),
        native_weight(plain, transposed.bias, transposed=True),
        native_weight(plain),
    )
    for module, weight in zip((layer, transposed, table), weights, strict=True):
        module.weight = nn.Parameter(weight, requires_grad=False)
    assert all(map(torch.allclose, (layer(x), transposed(x), table(ids)), before))
    assert [num_uses(weight) for weight in weights] == [1, 1, 1]
    assert not any(weight.num_unpacked for weight in weights)


def test_its_metadata_can_be_read_without_unpacking(plain: Tensor) -> None:
    layer = nn.Linear(INPUTS, OUTPUTS, bias=False, dtype=torch.bfloat16)
    weight = native_weight(plain.bfloat16())
    layer.weight = nn.Parameter(weight, requires_grad=False)
    assert layer.weight is weight and isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype == torch.bfloat16 and layer.weight.device.type == "cpu"
    assert layer.weight.shape == (OUTPUTS, INPUTS) and layer.weight.is_floating_point()
    assert sum(each.numel() for each in layer.parameters()) == OUTPUTS * INPUTS
    assert list(layer.state_dict()) == ["weight"]
    assert not weight.num_unpacked


@torch.inference_mode()
def test_inside_dequantized_the_plain_weight_is_used(plain: Tensor) -> None:
    weight, x = native_weight(plain), torch.randn(2, INPUTS)
    with Dequantized():
        assert torch.equal(functional.linear(x, weight), functional.linear(x, plain))
        assert torch.equal(functional.embedding(torch.tensor([3]), weight), plain[[3]])
    assert not num_uses(weight)
    functional.linear(x, weight)
    assert num_uses(weight)


@torch.inference_mode()
def test_an_expert_of_a_stack_is_multiplied_natively(plain: Tensor) -> None:
    weights = [native_weight(plain + place) for place in range(3)]
    stack, x = PackedExperts(weights), torch.randn(2, INPUTS)
    assert stack.shape == (3, OUTPUTS, INPUTS)
    for place in (1, torch.tensor(1)):
        assert torch.equal(functional.linear(x, stack[place]), functional.linear(x, plain + 1))
    assert [num_uses(weight) for weight in weights] == [0, 2, 0] and not stack.num_unpacked
    assert torch.equal(stack[1:], torch.stack([plain + 1, plain + 2]))
    assert stack.num_unpacked == 3
    with Dequantized():
        assert torch.equal(functional.linear(x, stack[2]), functional.linear(x, plain + 2))
    assert stack.num_unpacked == 4 and [num_uses(weight) for weight in weights] == [0, 2, 0]


@torch.no_grad()
def test_a_stack_is_multiplied_expert_by_expert_without_rows_of_zeros(plain: Tensor) -> None:
    experts = [plain + place for place in range(3)]
    stack = PackedExperts([native_weight(each, transposed=True) for each in experts])
    x = torch.randn(3, 4, INPUTS)
    x[1], x[2, 1:3] = 0, 0
    expected = torch.bmm(x, torch.stack([each.T for each in experts]))
    assert torch.allclose(torch.bmm(x, stack), expected, atol=1e-6) and not stack.num_unpacked
    with Dequantized():
        assert torch.allclose(torch.bmm(x, stack), expected, atol=1e-6)
    assert [member.matrix.num_rows for member in stack.members] == [4, 0, 2]  # type: ignore[attr-defined]
