"""The layer with an adapter computes what peft's own does, in the way of the server."""

from typing import Any

import pytest
import torch
from peft import LoraConfig
from peft.tuners.lora import Linear
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from inference.model.lora.delta import LoraDelta
from inference.model.quantization import device_matrix
from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.packed_tensor import PackedWeight
from inference.native.structs import NativeDtype
from tuning.trainer.model.lora_linear import LoraLinear

TOKENS, INPUTS, OUTPUTS, RANK, ALPHA = 40, 24, 56, 4, 10
NAME = "a"


def make_layer(
    kind: type[Linear], dtype: torch.dtype = torch.float32, bias: bool = False, **config: Any
) -> Linear:
    torch.manual_seed(0)
    base = nn.Linear(INPUTS, OUTPUTS, bias=bias).to(dtype).requires_grad_(False)
    options = LoraConfig(r=RANK, lora_alpha=ALPHA, **config)
    layer = kind(base, NAME, options, r=RANK, lora_alpha=ALPHA)
    for adapter in (layer.lora_A, layer.lora_B):
        adapter[NAME].float()  # as peft has trained weights in a model
    nn.init.normal_(layer.lora_B[NAME].weight)
    return layer


def make_inputs(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, TOKENS // 2, INPUTS, generator=torch.Generator().manual_seed(1)).to(dtype)


def outcome(layer: Linear) -> list[Tensor]:
    """The outputs, and the gradients of the inputs, of A and of B."""
    x = make_inputs().requires_grad_()
    output = layer(x)
    weights = [layer.lora_A[NAME].weight, layer.lora_B[NAME].weight]
    return [output, *torch.autograd.grad(output.square().mean(), [x, *weights])]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("config", [{}, {"use_rslora": True}, {"use_dora": True}], ids=str)
def test_outputs_and_gradients_are_those_of_peft(config: dict[str, bool], bias: bool) -> None:
    own, peft = (outcome(make_layer(kind, bias=bias, **config)) for kind in (LoraLinear, Linear))
    for value, expected in zip(own, peft, strict=True):
        assert torch.allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_outputs_in_bfloat16_are_those_of_the_server() -> None:
    layer, x = make_layer(LoraLinear, torch.bfloat16), make_inputs(torch.bfloat16)
    a, b = (module[NAME].weight.detach() for module in (layer.lora_A, layer.lora_B))
    served = LoraDelta(a.bfloat16(), (b * layer.scaling[NAME]).bfloat16())
    expected = served.apply(x.flatten(0, 1), layer.base_layer(x).flatten(0, 1))
    assert torch.equal(layer(x).flatten(0, 1), expected)


def test_the_backward_pass_needs_no_float32_copy_of_the_inputs() -> None:
    layer, x = make_layer(LoraLinear, torch.bfloat16), make_inputs(torch.bfloat16).requires_grad_()
    sizes: list[int] = []
    with saved_tensors_hooks(lambda tensor: sizes.append(tensor.nbytes) or tensor, lambda tensor: tensor):
        layer(x)
    assert max(sizes) == max(x.nbytes, layer.base_layer.weight.nbytes)


def test_an_adapter_without_this_layer_changes_nothing() -> None:
    layer, x = make_layer(LoraLinear), make_inputs()
    layer._active_adapter = "other"
    assert torch.equal(layer(x), layer.base_layer(x))


@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_weight_is_added_to_what_the_adapter_computes(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_matrix, "BLOCK_VALUES", 16 * INPUTS)
    layer = make_layer(LoraLinear, bias=bias)
    expected = outcome(layer)
    pack_device_matrix(layer)
    for value, plain in zip(outcome(layer), expected, strict=True):
        assert torch.allclose(value, plain, rtol=1e-4, atol=1e-4)


def test_recomputing_a_layer_stops_before_its_last_frozen_product(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, products = make_layer(LoraLinear), list[int]()
    pack_device_matrix(layer)
    add_linear = DeviceMatrix.add_linear
    monkeypatch.setattr(
        DeviceMatrix, "add_linear", lambda *args: (products.append(len(args)), add_linear(*args))[1]
    )
    x = make_inputs().requires_grad_()
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert x.grad is not None and len(products) == 1


def pack_device_matrix(layer: Linear) -> None:
    """Give the frozen layer a matrix that holds its weight as it is."""
    base = layer.base_layer
    matrix = DeviceMatrix.pack(base.weight, NativeDtype.F32, base.bias)
    weight = PackedWeight(matrix, tuple(base.weight.shape), base.weight.dtype, base.bias, False)
    base.weight = nn.Parameter(weight, requires_grad=False)
