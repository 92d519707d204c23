"""A Llama-like model as it was read: the numbers and tensors of which native code makes a step.

Knows no model's class and no library; how it is read is reader.py's, how it is handed over bound.py's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from inference.native.structs import Activation, Matrix


class Shape(NamedTuple):
    """Heads of queries share groups of keys and values, each `head` wide."""

    hidden: int
    heads: int
    groups: int
    head: int


class Scales(NamedTuple):
    """What is multiplied with a number, as step.h names it. Caps: 0 is none."""

    scale: float
    score_cap: float
    embedding_scale: float
    residual_scale: float
    logit_cap: float


@dataclass(frozen=True, slots=True)
class Block:
    """A layer.

    attention  the module whose keys and values the pool holds
    matrices   query, key, value, output, gate, up, down
    norms      what is multiplied with, as floats, by the names that step.h has for the places
    cos, sin   (positions, rotary / 2) floats; None: its keys are not turned
    window     tokens seen, the own one included; 0: all
    """

    attention: nn.Module
    matrices: Mapping[str, Matrix]
    norms: Mapping[str, Tensor]
    cos: Tensor | None
    sin: Tensor | None
    window: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A model.

    keys  (T, G, D), of some tokens, as the pool is to hold them
    held  whatever keeps the memory of the matrices
    """

    blocks: tuple[Block, ...]
    embedding: Matrix
    head_matrix: Matrix
    last_norm: Tensor
    keys: Tensor
    shape: Shape
    scales: Scales
    activation: Activation
    epsilon: float
    held: tuple[object, ...]

    @property
    def rotary(self) -> int:
        """Of a head's width, how much is turned."""
        return max((2 * block.cos.shape[1] for block in self.blocks if block.cos is not None), default=0)
