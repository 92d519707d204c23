"""Finds out what modules compute by calling them: rotary tables, multipliers, norms and activations.

A norm must compute x / √(mean(x²) + ε) × w (RMSNorm), where w is its weight, or its weight + 1. Any other
computation raises UnsupportedModel. Knows modules and tensors; no model classes.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from inference.model.batch import UnsupportedModel
from inference.native.structs import Activation

EPSILONS = ("variance_epsilon", "eps", "epsilon")  # attributes of transformers' norms that hold ε
MAGNITUDES = (1.0, 1e-3)  # of the sample vectors; the second is small enough for ε to matter
ACTIVATION_NAMES = ("act_fn", "activation_fn", "act")  # attributes of transformers' MLPs
ACTIVATIONS = {
    Activation.SILU: silu,
    Activation.GELU_TANH: lambda x: gelu(x, approximate="tanh"),
    Activation.GELU: gelu,
}
# Tolerances, relative to the largest value.
NORM_ULPS = 8  # norms: units in the last place of the model's dtype,
NORM_RTOL = 1e-5  # and at least this
MULTIPLIER_RTOL = 0.02  # five times the rounding of half precision
ONE_TOL = 1e-3  # a multiplier this close to 1 is 1
ROPE_RTOL = 0.03  # rotated keys: ten times the rounding
ACTIVATION_ATOL = 1e-5  # absolute; the two forms of GELU differ by up to 50 times as much


class Norm(NamedTuple):
    """An RMS norm.

    weight   the factors w (width,), float32
    epsilon  ε
    """

    weight: Tensor
    epsilon: float


class CosSin(NamedTuple):
    """cos, sin (positions, rotary / 2), float32."""

    cos: Tensor
    sin: Tensor


class RopeTables:
    """The rotary tables of a model's layers for every position of the context, each computed once."""

    def __init__(self, decoder: nn.Module, context: int, dtype: torch.dtype) -> None:
        self.context, self.dtype = context, dtype
        self.rotary_modules = list(rotary_modules(decoder))
        self.by_index: dict[int, CosSin] = {}

    def tables_for(self, cos_sin: tuple[Tensor, Tensor]) -> CosSin:
        """The table of a layer that was called with (cos, sin), each (1, T, rotary), at positions 0, 1, …."""
        positions = torch.arange(cos_sin[0].shape[1])[None]
        for place, module in enumerate(self.rotary_modules):
            cos, sin = module(torch.empty(1, dtype=self.dtype), positions)
            if torch.equal(cos, cos_sin[0]) and torch.equal(sin, cos_sin[1]):
                if place not in self.by_index:
                    every = torch.arange(self.context)[None]
                    self.by_index[place] = first_halves(*module(torch.empty(1), every))
                return self.by_index[place]
        raise UnsupportedModel("a layer's cosines and sines are not those of a rotary module")


def rotary_modules(decoder: nn.Module) -> Iterator[Callable[..., tuple[Tensor, Tensor]]]:
    """Functions from (sample of the dtype, positions) to (cos, sin), one for each layer type."""
    for module in decoder.modules():
        kinds: Any = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):
            for layer in kinds:
                yield lambda sample, positions, of=module, layer=layer: of(sample, positions, layer)
        elif kinds is not None:
            yield module


def first_halves(cos: Tensor, sin: Tensor) -> CosSin:
    """The first halves of tables (1, n, rotary). Raises UnsupportedModel if the two halves differ."""
    half = cos.shape[-1] // 2
    for table in (cos, sin):
        if not torch.equal(table[..., :half], table[..., half:]):
            raise UnsupportedModel("the two halves of its rotary tables differ")
    return CosSin(cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous())


def is_rotated(before: Tensor, after: Tensor, tables: CosSin) -> bool:
    """Whether the keys `after` (T, G, D) are `before` rotated to positions 0, 1, …; False if unchanged.

    Raises UnsupportedModel if they are neither.
    """
    size = after.abs().max()
    rotated = rotate(before, CosSin(tables.cos[: len(before)], tables.sin[: len(before)]))
    if (rotated - after).abs().max() <= ROPE_RTOL * size:
        return True
    if (before - after).abs().max() <= ROPE_RTOL * size:
        return False
    raise UnsupportedModel("its keys are changed before caching by more than rotary embeddings")


def rotate(x: Tensor, tables: CosSin) -> Tensor:
    """Rotate x (T, G, D) to the positions of the tables (T, rotary / 2)."""
    half = tables.cos.shape[-1]
    cos, sin = tables.cos[:, None], tables.sin[:, None]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


def multiplier(name: str, before: Tensor, after: Tensor, exact: bool = False) -> float:
    """Return the number c with after = c × before; exact: c must be 1. Raises UnsupportedModel otherwise."""
    before, after = before.float().flatten(), after.float().flatten()
    ratio = (torch.dot(before, after) / torch.dot(before, before)).item()
    if abs(ratio - 1) < ONE_TOL:
        ratio = 1.0
    if not (after - ratio * before).abs().max() <= MULTIPLIER_RTOL * after.abs().max():
        raise UnsupportedModel(f"{name} are not scaled by one constant")
    if exact and ratio != 1:
        raise UnsupportedModel(f"{name} are scaled by {ratio:.3g}, which is not supported with a bias")
    return ratio


def uncapped(capped: Tensor, cap: float) -> Tensor:
    """Return x for capped = cap × tanh(x / cap)."""
    return cap * torch.atanh(capped.float() / cap) if cap else capped


@torch.inference_mode()
def norm_of(module: nn.Module, width: int, dtype: torch.dtype) -> Norm:
    """The weight and ε of a norm of vectors (width,). Raises UnsupportedModel for other modules."""
    name = type(module).__name__
    epsilon = next((value for key in EPSILONS if (value := getattr(module, key, None)) is not None), None)
    if not isinstance(epsilon, float):
        raise UnsupportedModel(f"{name} has no epsilon")
    weights = weights_of(module, width)
    vectors = sample(width).to(dtype)
    output = module(vectors[None])[0].float()
    plain = vectors.float() * torch.rsqrt(vectors.float().pow(2).mean(-1, keepdim=True) + epsilon)
    for weight in weights:
        error = (output - plain * weight).abs().amax(-1)
        allowed = max(NORM_ULPS * torch.finfo(dtype).eps, NORM_RTOL) * (plain * weight).abs().amax(-1)
        if bool((error <= allowed).all()):
            return Norm(weight.contiguous(), epsilon)
    raise UnsupportedModel(f"{name} of width {width} is not a supported norm")


def weights_of(module: nn.Module, width: int) -> tuple[Tensor, ...]:
    """The possible factors w. Raises UnsupportedModel for a weight of another width."""
    weight = getattr(module, "weight", None)
    if weight is None:
        return (torch.ones(width),)
    if weight.shape != (width,):
        raise UnsupportedModel(
            f"{type(module).__name__} has weights of shape {tuple(weight.shape)}, not {(width,)}"
        )
    return weight.detach().float(), 1 + weight.detach().float()


def sample(width: int) -> Tensor:
    """Sample vectors (2, width) with a non-zero mean and no symmetry."""
    at = torch.arange(1, width + 1, dtype=torch.float64)
    vector = torch.sin(at * at) + 0.5
    return torch.stack([vector * magnitude for magnitude in MAGNITUDES]).float()


@torch.inference_mode()
def activation_of(mlp: nn.Module) -> Activation:
    """The activation of an MLP module. Raises UnsupportedModel for a function that is not in ACTIVATIONS."""
    function = next((getattr(mlp, name) for name in ACTIVATION_NAMES if hasattr(mlp, name)), None)
    if function is None:
        *names, last_name = ACTIVATION_NAMES
        raise UnsupportedModel(f"a {type(mlp).__name__} has no {', '.join(names)} or {last_name}")
    samples = torch.linspace(-6, 6, 97)
    output = function(samples)
    for activation, known_function in ACTIVATIONS.items():
        if torch.allclose(output, known_function(samples), rtol=0, atol=ACTIVATION_ATOL):
            return activation
    raise UnsupportedModel(f"{type(function).__name__} is not a supported activation")
