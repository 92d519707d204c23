"""A pass of torch's compiler that hands attention the queries and keys before their rotary embedding.

One kernel (RotaryStoreKernel) then rotates them and writes keys and values into the pages. Knows the rotary
embedding as transformers' models compute it, x cos + rotate_half(x) sin; another one stays as it is.
"""

from typing import Any, NamedTuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node

aten = torch.ops.aten
QUERY, KEY = 0, 1  # places of the attention operator's arguments
MAX_END = 2**63 - 1  # of a slice without an end


class Rotation(NamedTuple):
    """A rotary embedding: states (1, H, T, D), cos and sin (1, 1, T, D)."""

    states: Node
    cos: Node
    sin: Node


class FuseRotary(CustomGraphPass):
    """Rewrites calls of `operator`, whose last two arguments are cos and sin."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator

    def __call__(self, graph: Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=self.operator):
            query, key = (rotation_of(node.args[place]) for place in (QUERY, KEY))
            if query is None or key is None or (query.cos, query.sin) != (key.cos, key.sin):
                continue
            node.args = (query.states, key.states, *node.args[2:-2], query.cos, query.sin)
            node.meta.pop("eager_input_vals", None)  # describes the former arguments
        graph.eliminate_dead_code()

    def uuid(self) -> str:
        return f"fuse rotary 1 {self.operator}"


def rotation_of(node: Any) -> Rotation | None:
    """The rotary embedding that computes `node`; None for any other computation."""
    if not (is_call(node, aten.add.Tensor) and all(is_call(each, aten.mul.Tensor) for each in node.args)):
        return None
    (states, cos), (rotated_half, sin) = (each.args for each in node.args)
    if not (is_rotated_half(rotated_half, states) and is_table(cos, states) and is_table(sin, states)):
        return None
    return Rotation(states, cos, sin)


def is_rotated_half(node: Any, states: Any) -> bool:
    """Whether `node` is rotate_half(states): the second half, negated, before the first half."""
    if not (is_call(node, aten.cat.default) and isinstance(states, Node) and len(node.args[0]) == 2):
        return False
    negated, low = node.args[0]
    half, last = states.meta["val"].shape[-1] // 2, states.meta["val"].ndim - 1
    is_last = len(node.args) > 1 and node.args[1] in (-1, last)
    return (
        is_last
        and is_call(negated, aten.neg.default)
        and is_slice(negated.args[0], states, last, (half, MAX_END))
        and is_slice(low, states, last, (0, half))
    )


def is_slice(node: Any, states: Node, dim: int, bounds: tuple[int, int]) -> bool:
    return is_call(node, aten.slice.Tensor) and node.args == (states, dim, *bounds)


def is_table(node: Any, states: Node) -> bool:
    """Whether `node` has one row for each token, (1, 1, T, D), for states (1, H, T, D)."""
    if not isinstance(node, Node):
        return False
    shape, states_shape = node.meta["val"].shape, states.meta["val"].shape
    return len(shape) == len(states_shape) == 4 and shape == (1, 1, *states_shape[2:])


def is_call(node: Any, target: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target is target
