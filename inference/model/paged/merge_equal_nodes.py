"""A pass of torch's compiler that computes equal expressions once."""

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch._inductor.custom_graph_pass import CustomGraphPass


class MergeEqualNodes(CustomGraphPass):
    """Merged projections (merge_projections.py) are traced as one equal matmul in each of their members."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        module = graph.owning_module
        assert module is not None, "the compiler's graphs belong to a module"
        module.graph = fx_graph_cse(graph)

    def uuid(self) -> str:
        return "merge equal nodes 1"
