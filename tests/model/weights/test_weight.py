"""A weight that a matrix holds: a tensor to whoever looks at it, natively multiplied, else unpacked."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from inference.model.weights.weight import NativeStack, NativeWeight, Plainly
from inference.native.structs import Kind
from tests.model.weights.kept import Kept

OUTPUTS, INPUTS = 12, 8


@pytest.fixture
def plain() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(OUTPUTS, INPUTS)


def native(plain: Tensor, bias: Tensor | None = None, turned: bool = False) -> NativeWeight:
    """A weight that is `plain`, or its transpose where it is turned."""
    shape = tuple(plain.shape[::-1] if turned else plain.shape)
    return NativeWeight(Kept(plain, Kind.F32, bias), shape, plain.dtype, bias, turned)


def used(weight: NativeWeight) -> int:
    assert isinstance(weight.matrix, Kept)
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
def test_products_are_native(name: str, plain: Tensor) -> None:
    weight, given = native(plain), torch.randn(2, 3, INPUTS)
    assert torch.allclose(PRODUCTS[name](given, weight), PRODUCTS[name](given, plain), atol=1e-6)
    assert used(weight) == 1 and not weight.unpacked


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_computed_gets_the_values(
    name: str, mode: Callable[[], object], plain: Tensor
) -> None:
    weight, given = native(plain), torch.randn(3, INPUTS)
    with mode():  # type: ignore[attr-defined]
        found, right = OTHERS[name](given, weight), OTHERS[name](given, plain)
    assert type(found) is Tensor and torch.allclose(found, right, atol=1e-6)
    assert weight.unpacked and not used(weight)


@torch.no_grad()
def test_modules_of_torch_and_transformers_compute_with_it(plain: Tensor) -> None:
    layer, turned, table = nn.Linear(INPUTS, OUTPUTS), Conv1D(OUTPUTS, INPUTS), nn.Embedding(OUTPUTS, INPUTS)
    given, ids = torch.randn(2, 3, INPUTS), torch.tensor([[1, 5], [0, 11]])
    layer.weight.data, turned.weight.data, table.weight.data = plain, plain.T.contiguous(), plain
    before = layer(given), turned(given), table(ids)
    weights = native(plain, layer.bias), native(plain, turned.bias, turned=True), native(plain)
    for module, weight in zip((layer, turned, table), weights, strict=True):
        module.weight = nn.Parameter(weight, requires_grad=False)
    assert all(map(torch.allclose, (layer(given), turned(given), table(ids)), before))
    assert [used(weight) for weight in weights] == [1, 1, 1]
    assert not any(weight.unpacked for weight in weights)


def test_what_it_is_can_be_asked_without_its_values(plain: Tensor) -> None:
    layer = nn.Linear(INPUTS, OUTPUTS, bias=False, dtype=torch.bfloat16)
    weight = native(plain.bfloat16())
    layer.weight = nn.Parameter(weight, requires_grad=False)
    assert layer.weight is weight and isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype == torch.bfloat16 and layer.weight.device.type == "cpu"
    assert layer.weight.shape == (OUTPUTS, INPUTS) and layer.weight.is_floating_point()
    assert sum(each.numel() for each in layer.parameters()) == OUTPUTS * INPUTS
    assert list(layer.state_dict()) == ["weight"]
    assert not weight.unpacked


@torch.inference_mode()
def test_it_can_be_computed_with_plainly(plain: Tensor) -> None:
    weight, given = native(plain), torch.randn(2, INPUTS)
    with Plainly():
        assert torch.equal(functional.linear(given, weight), functional.linear(given, plain))
        assert torch.equal(functional.embedding(torch.tensor([3]), weight), plain[[3]])
    assert not used(weight)
    functional.linear(given, weight)
    assert used(weight)


@torch.inference_mode()
def test_one_of_a_stack_is_multiplied_natively(plain: Tensor) -> None:
    weights = [native(plain + place) for place in range(3)]
    stack, given = NativeStack(weights), torch.randn(2, INPUTS)
    assert stack.shape == (3, OUTPUTS, INPUTS)
    for place in (1, torch.tensor(1)):
        assert torch.equal(functional.linear(given, stack[place]), functional.linear(given, plain + 1))
    assert [used(weight) for weight in weights] == [0, 2, 0] and not stack.unpacked
    assert torch.equal(stack[1:], torch.stack([plain + 1, plain + 2]))
    assert stack.unpacked == 3
    with Plainly():
        assert torch.equal(functional.linear(given, stack[2]), functional.linear(given, plain + 2))
    assert stack.unpacked == 4 and [used(weight) for weight in weights] == [0, 2, 0]
