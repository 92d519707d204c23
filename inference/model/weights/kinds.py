"""In what form a weight is kept: by what QUANTISE asks for, and what the weight is for.

A table, and the bytes it comes to. Knows no values: a model on torch's meta device can be asked about.
"""

from collections.abc import Mapping
from typing import Any

import torch

from inference.model.weights.found import Found, Role, find
from inference.native.matrix import GROUP, PANEL
from inference.native.structs import Kind

NONE, INT8, INT4 = "none", "int8", "int4"
OWN = {torch.float32: Kind.F32, torch.bfloat16: Kind.BF16}
OWN_OF_SIZE = {dtype.itemsize: kind for dtype, kind in OWN.items()}

# None: in the model's own dtype. An error of the head is one of every logit, and what is small saves little.
KINDS: Mapping[str, Mapping[Role, Kind | None]] = {
    NONE: dict.fromkeys(Role),
    INT8: {
        Role.LAYER: Kind.INT8,
        Role.EXPERTS: Kind.INT8,
        Role.SMALL: None,
        Role.HEAD: Kind.INT8,
        Role.EMBEDDING: Kind.INT8,
    },
    INT4: {
        Role.LAYER: Kind.INT4,
        Role.EXPERTS: Kind.INT4,
        Role.SMALL: None,
        Role.HEAD: Kind.INT8,
        Role.EMBEDDING: Kind.INT8,
    },
}
# Bytes of a value, of an output's scale, of the scale of a group of inputs.
BYTES = {Kind.F32: (4, 0, 0), Kind.BF16: (2, 0, 0), Kind.INT8: (1, 4, 0), Kind.INT4: (0.5, 0, 2)}
BIAS = 4  # bytes of a value of the bias that a matrix adds: a copy, in float32


def kind_of(found: Found, quantise: str) -> Kind:
    """The kind of matrix that is to hold it."""
    kind = KINDS[quantise][found.role]
    return OWN[found.weight.dtype] if kind is None else kind


def saved(model: Any, itemsize: int) -> dict[str, int]:
    """By what QUANTISE may be: the bytes that a model without values takes less than with `itemsize` each."""
    weights = list(find(model, "meta"))
    return {kind: sum(saving(found, kind, itemsize) for found in weights) for kind in (INT8, INT4)}


def saving(found: Found, quantise: str, itemsize: int) -> int:
    """Less than nothing for a small one that is kept in its own dtype, in whole panels."""
    asked = KINDS[quantise][found.role]
    kind = OWN_OF_SIZE[itemsize] if asked is None else asked
    matrices = found.weight.numel() // (found.outputs * found.inputs)
    taken = matrices * nbytes(kind, found.outputs, found.inputs)
    bias = 0 if found.bias is None else BIAS * found.bias.numel()
    return found.weight.numel() * itemsize - taken - bias


def nbytes(kind: Kind, outputs: int, inputs: int) -> int:
    """Of a matrix: its outputs fill whole panels, its inputs whole groups."""
    outputs, groups = -(-outputs // PANEL) * PANEL, -(-inputs // GROUP)
    value, output, group = BYTES[kind]
    return int(outputs * (groups * (GROUP * value + group) + output))
