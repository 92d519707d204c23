"""In what form a weight is kept: by what QUANTISE asks for, and what the weight is for.

A table, and the bytes it comes to. Knows no values: a model on torch's meta device can be asked about.
"""

from collections.abc import Mapping
from typing import Any

import torch

from inference.model.weights.found import Found, Role, find
from inference.native.structs import Kind

NONE, INT8, INT4 = "none", "int8", "int4"
OWN = {torch.float32: Kind.F32, torch.bfloat16: Kind.BF16}

# None: in the model's own dtype; who is not there is left alone. An error of the head is one of every logit,
# and what is small saves little.
KINDS: Mapping[str, Mapping[Role, Kind | None]] = {
    NONE: {Role.LAYER: None, Role.SMALL: None, Role.HEAD: None, Role.EMBEDDING: None},
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
# Bytes of a value, its share of a group's scale included; those of an output's scale besides.
BYTES = {Kind.F32: (4.0, 0), Kind.BF16: (2.0, 0), Kind.INT8: (1.0, 4), Kind.INT4: (0.5 + 2 / 32, 0)}


def kind_of(found: Found, quantise: str) -> Kind | None:
    """The kind of matrix that is to hold it; None where none is."""
    kinds = KINDS[quantise]
    if found.role not in kinds:
        return None
    kind = kinds[found.role]
    return OWN[found.weight.dtype] if kind is None else kind


def saved(model: Any, itemsize: int) -> dict[str, int]:
    """By what QUANTISE may be: the bytes that a model without values takes less than with `itemsize` each."""
    weights = list(find(model, "meta"))
    return {kind: sum(saving(found, kind, itemsize) for found in weights) for kind in (INT8, INT4)}


def saving(found: Found, quantise: str, itemsize: int) -> int:
    kind = KINDS[quantise][found.role]
    if kind is None:
        return 0
    value, output = BYTES[kind]
    return int(found.weight.numel() * (itemsize - value - output / found.inputs))
