"""Reads one layer: parts by the names that transformers gives them, what they compute by trying it.

Knows the names of parts, in tables; no model's class.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inference.model.fused.anatomy import (
    DOWN,
    GATE,
    GATE_AND_UP,
    JOINED,
    KEY,
    OUTPUT,
    QUERY,
    UP,
    VALUE,
    child,
    holds_weights,
    key_source,
)
from inference.model.fused.matrices import parts, shaped, weight_of
from inference.model.fused.norms import norm_of
from inference.model.fused.reading import Block, Shape
from inference.model.fused.rotary import Rotary, Tables, turns
from inference.model.fused.witness import Called, Seen
from inference.model.unfit import Unfit
from inference.native.structs import Matrix

# The norms of a layer, by the names that step.h has for their places.
NORMS = (
    {"input_layernorm": "before_attention", "post_attention_layernorm": "before_mlp"},
    {
        "input_layernorm": "before_attention",
        "post_attention_layernorm": "after_attention",
        "pre_feedforward_layernorm": "before_mlp",
        "post_feedforward_layernorm": "after_mlp",
    },
    {"input_layernorm": "before_attention", "pre_feedforward_layernorm": "before_mlp"},
    {"post_attention_layernorm": "after_attention", "post_feedforward_layernorm": "after_mlp"},
)
QUERY_NORM, KEY_NORM = "q_norm", "k_norm"
HEAD_NORMS = {QUERY_NORM: "query_norm", KEY_NORM: "key_norm"}


@dataclass(slots=True)
class Common:
    """What the layers of a model share, and what was read of it so far.

    known     modules whose weights were read
    held      whatever keeps the memory of their matrices
    epsilons  of the norms that were read
    """

    seen: Seen
    rotary: Rotary
    dtype: torch.dtype
    shape: Shape
    known: set[nn.Module] = field(default_factory=set)
    held: list[Any] = field(default_factory=list)
    epsilons: set[float] = field(default_factory=set)

    def matrix(self, module: nn.Module) -> Matrix:
        held = weight_of(module).matrix
        self.known.add(module)
        self.held.append(held)
        struct: Matrix = held.struct
        return struct

    def norm(self, module: nn.Module, width: int) -> Tensor:
        weight, epsilon = norm_of(module, width, self.dtype)
        self.known.add(module)
        self.epsilons.add(epsilon)
        return weight


def block(layer: nn.Module, common: Common) -> Block:
    """Raises Unfit where the layer has, or does, what is not known here."""
    attention = child(layer, "self_attn")
    matrices = {
        **of_attention(attention, common),
        **of_mlp(child(layer, "mlp"), common),
    }
    norms = {
        **norms_of(layer, common),
        **{place: common.norm(part, common.shape.head) for part, place in head_norms(attention)},
    }
    tables = tables_of(layer, attention, common)
    return Block(
        attention=attention,
        matrices=matrices,
        norms=norms,
        cos=tables and tables.cos,
        sin=tables and tables.sin,
        window=common.seen.told[attention].window,
    )


def of_attention(attention: nn.Module, common: Common) -> dict[str, Matrix]:
    hidden, heads, groups, head = common.shape
    sizes = (heads * head, groups * head, groups * head)
    if hasattr(attention, JOINED):
        three = parts(common.matrix(child(attention, JOINED)), sizes)
    else:
        three = [common.matrix(child(attention, name)) for name in (QUERY, KEY, VALUE)]
    named = zip(("query", "key", "value"), three, sizes, strict=True)
    return {
        **{name: shaped(name, matrix, size, hidden) for name, matrix, size in named},
        "output": shaped("output", common.matrix(child(attention, OUTPUT)), hidden, heads * head),
    }


def of_mlp(mlp: nn.Module, common: Common) -> dict[str, Matrix]:
    down = common.matrix(child(mlp, DOWN))
    if hasattr(mlp, GATE_AND_UP):
        both = parts(common.matrix(child(mlp, GATE_AND_UP)), (down.inputs, down.inputs))
    else:
        both = [common.matrix(child(mlp, name)) for name in (GATE, UP)]
    named = zip(("gate", "up"), both, strict=True)
    return {
        **{name: shaped(name, matrix, down.inputs, common.shape.hidden) for name, matrix in named},
        "down": shaped("down", down, common.shape.hidden, down.inputs),
    }


def norms_of(layer: nn.Module, common: Common) -> dict[str, Tensor]:
    """What stands in a layer beside attention and the MLP."""
    found = {
        name: part
        for name, part in layer.named_children()
        if name not in ("self_attn", "mlp") and holds_weights(part)
    }
    for places in NORMS:
        if places.keys() == found.keys():
            return {place: common.norm(found[name], common.shape.hidden) for name, place in places.items()}
    raise Unfit(f"its layers have {', '.join(found) or 'no norms'}, which is not known here")


def head_norms(attention: nn.Module) -> list[tuple[nn.Module, str]]:
    named = ((getattr(attention, name, None), place) for name, place in HEAD_NORMS.items())
    return [(part, place) for part, place in named if part is not None]


def tables_of(layer: nn.Module, attention: Any, common: Common) -> Tables | None:
    """The positions that its keys are turned to; None where they stay as they are."""
    given = positions_given(common.seen.calls[layer])
    if given is None:
        return None
    tables = common.rotary.tables(given)
    before = keys_made(attention, common)
    after = common.seen.keys[attention].float()
    return tables if turns(before, after, tables) else None


def keys_made(attention: Any, common: Common) -> Tensor:
    """The keys (T, G, D) of the tokens seen, as they are before they are turned."""
    _, heads, groups, head = common.shape
    made = common.seen.calls[key_source(attention)].made[0]  # (T, …)
    first = heads * head if hasattr(attention, JOINED) else 0
    keys = made[:, first : first + groups * head].unflatten(-1, (groups, head))
    norm = getattr(attention, KEY_NORM, None)
    return (keys if norm is None else norm(keys)).float()


def positions_given(call: Called) -> tuple[Tensor, Tensor] | None:
    """The cosines and sines that a layer was called with."""
    every = (call.kwargs.get("position_embeddings"), *call.args)
    return next((given for given in every if isinstance(given, tuple) and len(given) == 2), None)
