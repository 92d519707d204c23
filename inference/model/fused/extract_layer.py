"""Extracts one layer: finds its modules by transformers' names, and what they compute by calling them.

Knows tables of module names; no model classes.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inference.model.batch import UnsupportedModel
from inference.model.fused.extract_matrices import check_shape, packed_weight_of, split_matrix
from inference.model.fused.llama_model import HeadShape, LayerSpec
from inference.model.fused.module_map import (
    DOWN,
    GATE,
    GATE_AND_UP,
    KEY,
    OUTPUT,
    QUERY,
    QUERY_KEY_VALUE,
    UP,
    VALUE,
    child,
    has_own_weights,
    key_projection,
)
from inference.model.fused.probe import CosSin, RopeTables, is_rotated, norm_of
from inference.model.fused.trace import ForwardTrace, ModuleCall
from inference.native.structs import Matrix

# The supported sets of a layer's norms: transformers' module name → field of Layer in step.h.
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
class ExtractContext:
    """What the layers of a model share, and what was extracted so far.

    trace        a forward pass of the model over a few tokens
    rope_tables  the model's rotary tables
    dtype        the model's dtype
    shape        the attention shape of all layers
    extracted    modules whose weights were extracted
    keep_alive   owners of the memory that the extracted matrices point into
    epsilons     ε of the extracted norms
    """

    trace: ForwardTrace
    rope_tables: RopeTables
    dtype: torch.dtype
    shape: HeadShape
    extracted: set[nn.Module] = field(default_factory=set)
    keep_alive: list[Any] = field(default_factory=list)
    epsilons: set[float] = field(default_factory=set)

    def matrix(self, module: nn.Module) -> Matrix:
        packed_matrix = packed_weight_of(module).matrix
        self.extracted.add(module)
        self.keep_alive.append(packed_matrix)
        struct: Matrix = packed_matrix.struct
        return struct

    def norm(self, module: nn.Module, width: int) -> Tensor:
        weight, epsilon = norm_of(module, width, self.dtype)
        self.extracted.add(module)
        self.epsilons.add(epsilon)
        return weight


def extract_layer(layer: nn.Module, common: ExtractContext) -> LayerSpec:
    """Extract a decoder layer. Raises UnsupportedModel for modules or computations that are not supported."""
    attention = child(layer, "self_attn")
    matrices = {
        **attention_matrices(attention, common),
        **mlp_matrices(child(layer, "mlp"), common),
    }
    head_norms = {place: getattr(attention, name, None) for name, place in HEAD_NORMS.items()}
    head_dim = common.shape.head_dim
    norms = {
        **layer_norms(layer, common),
        **{place: common.norm(norm, head_dim) for place, norm in head_norms.items() if norm is not None},
    }
    tables = rope_tables(layer, attention, common)
    return LayerSpec(
        attention=attention,
        matrices=matrices,
        norms=norms,
        cos=tables and tables.cos,
        sin=tables and tables.sin,
        window=common.trace.attention_calls[attention].window,
    )


def attention_matrices(attention: nn.Module, common: ExtractContext) -> dict[str, Matrix]:
    hidden, num_heads, num_kv_heads, head_dim = common.shape
    sizes = (num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim)
    if hasattr(attention, QUERY_KEY_VALUE):
        three = split_matrix(common.matrix(child(attention, QUERY_KEY_VALUE)), sizes)
    else:
        three = [common.matrix(child(attention, name)) for name in (QUERY, KEY, VALUE)]
    named = zip(("query", "key", "value"), three, sizes, strict=True)
    return {
        **{name: check_shape(name, matrix, size, hidden) for name, matrix, size in named},
        "output": check_shape(
            "output", common.matrix(child(attention, OUTPUT)), hidden, num_heads * head_dim
        ),
    }


def mlp_matrices(mlp: nn.Module, common: ExtractContext) -> dict[str, Matrix]:
    down = common.matrix(child(mlp, DOWN))
    if hasattr(mlp, GATE_AND_UP):
        both = split_matrix(common.matrix(child(mlp, GATE_AND_UP)), (down.inputs, down.inputs))
    else:
        both = [common.matrix(child(mlp, name)) for name in (GATE, UP)]
    named = zip(("gate", "up"), both, strict=True)
    return {
        **{name: check_shape(name, matrix, down.inputs, common.shape.hidden) for name, matrix in named},
        "down": check_shape("down", down, common.shape.hidden, down.inputs),
    }


def layer_norms(layer: nn.Module, common: ExtractContext) -> dict[str, Tensor]:
    """The norms of a layer: every module with weights except attention and the MLP."""
    norms = {
        name: module
        for name, module in layer.named_children()
        if name not in ("self_attn", "mlp") and any(map(has_own_weights, module.modules()))
    }
    for places in NORMS:
        if places.keys() == norms.keys():
            return {place: common.norm(norms[name], common.shape.hidden) for name, place in places.items()}
    raise UnsupportedModel(f"its layers have the norms {', '.join(norms) or '(none)'}, an unsupported set")


def rope_tables(layer: nn.Module, attention: Any, common: ExtractContext) -> CosSin | None:
    """The rotary tables that the layer rotates its keys with; None if it does not rotate them."""
    cos_sin = position_embeddings(common.trace.calls[layer])
    if cos_sin is None:
        return None
    tables = common.rope_tables.tables_for(cos_sin)
    before = unrotated_keys(attention, common)
    after = common.trace.keys[attention].float()
    return tables if is_rotated(before, after, tables) else None


def unrotated_keys(attention: Any, common: ExtractContext) -> Tensor:
    """The keys (T, G, D) of the traced tokens, float32, after the key norm and before rotation."""
    _, num_heads, num_kv_heads, head_dim = common.shape
    output = common.trace.calls[key_projection(attention)].output[0]  # (T, …)
    first = num_heads * head_dim if hasattr(attention, QUERY_KEY_VALUE) else 0
    keys = output[:, first : first + num_kv_heads * head_dim].unflatten(-1, (num_kv_heads, head_dim))
    norm = getattr(attention, KEY_NORM, None)
    return (keys if norm is None else norm(keys)).float()


def position_embeddings(call: ModuleCall) -> tuple[Tensor, Tensor] | None:
    """The (cos, sin) that a layer was called with; None if there are none among its arguments."""
    every = (call.kwargs.get("position_embeddings"), *call.args)
    return next((value for value in every if isinstance(value, tuple) and len(value) == 2), None)
