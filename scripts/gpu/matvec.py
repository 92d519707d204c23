"""A pass of torch's compiler that computes products of one row as reductions.

The compiler fuses reductions with the norm before and the addition after them, which it cannot do with calls
of cuBLAS. Their tiles are the compiler's default ones.
"""

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node

aten = torch.ops.aten


class MatvecsAsReductions(CustomGraphPass):
    """Replaces mm(x, w) by the sum over K of x (1, K) times w (K, N)."""

    def __call__(self, graph: Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=aten.mm.default):
            if is_one_row(node):
                with graph.inserting_before(node):
                    node.replace_all_uses_with(reduction(graph, *node.args))
                graph.erase_node(node)

    def uuid(self) -> str:
        return "matvecs as reductions 1"


def is_one_row(node: Node) -> bool:
    rows = node.meta["val"].shape[0]
    return isinstance(rows, int) and rows == 1


def reduction(graph: Graph, x: Node, w: Node) -> Node:
    column = graph.call_function(aten.unsqueeze.default, (x, 2))  # (1, K, 1)
    matrix = graph.call_function(aten.unsqueeze.default, (w, 0))  # (1, K, N)
    products = graph.call_function(aten.mul.Tensor, (column, matrix))
    return graph.call_function(aten.sum.dim_IntList, (products, [1]))
