"""Tables of cosines and sines for every position of the context, by the model's own rotary modules.

Which of them a layer has, and whether it uses it, is seen from what it was given. Knows rotary modules; no
model's class.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from inference.model.unfit import Unfit

MISSED = 0.03  # of the largest key: rounding is a tenth of that


class Tables(NamedTuple):
    """cos, sin (positions, rotary / 2), float32."""

    cos: Tensor
    sin: Tensor


class Rotary:
    """The tables of a model's layers, each made once."""

    def __init__(self, decoder: nn.Module, context: int, dtype: torch.dtype) -> None:
        self.context, self.dtype = context, dtype
        self.makers = list(makers(decoder))
        self.made: dict[int, Tables] = {}

    def tables(self, given: tuple[Tensor, Tensor]) -> Tables:
        """For a layer that was given (cos, sin), each (1, T, rotary), at positions 0, 1, …."""
        positions = torch.arange(given[0].shape[1])[None]
        for place, maker in enumerate(self.makers):
            cos, sin = maker(torch.empty(1, dtype=self.dtype), positions)
            if torch.equal(cos, given[0]) and torch.equal(sin, given[1]):
                if place not in self.made:
                    every = torch.arange(self.context)[None]
                    self.made[place] = halves(*maker(torch.empty(1), every))
                return self.made[place]
        raise Unfit("the positions it is given are not its rotary module's")


def makers(decoder: nn.Module) -> Iterator[Callable[..., tuple[Tensor, Tensor]]]:
    """What makes (cos, sin) from a sample of the dtype and positions; one for each type of layer."""
    for module in decoder.modules():
        kinds: Any = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):
            for layer in kinds:
                yield lambda sample, positions, of=module, layer=layer: of(sample, positions, layer)
        elif kinds is not None:
            yield module


def halves(cos: Tensor, sin: Tensor) -> Tables:
    """Of tables (1, n, rotary) whose halves are alike, one. Raises Unfit where they are not."""
    half = cos.shape[-1] // 2
    for table in (cos, sin):
        if not torch.equal(table[..., :half], table[..., half:]):
            raise Unfit("its rotary tables are not two equal halves")
    return Tables(cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous())


def turns(before: Tensor, after: Tensor, tables: Tables) -> bool:
    """Whether keys before (T, G, D) became those after by being turned to positions 0, 1, …; False where they
    stayed as they were. Raises Unfit where neither is so."""
    size = after.abs().max()
    turned = turn(before, Tables(tables.cos[: len(before)], tables.sin[: len(before)]))
    if (turned - after).abs().max() <= MISSED * size:
        return True
    if (before - after).abs().max() <= MISSED * size:
        return False
    raise Unfit("what it does with keys before they are kept is not known here")


def turn(x: Tensor, tables: Tables) -> Tensor:
    """x (T, G, D) at the positions of the tables (T, rotary / 2)."""
    half = tables.cos.shape[-1]
    cos, sin = tables.cos[:, None], tables.sin[:, None]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)
