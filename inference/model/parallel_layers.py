"""Tensor-parallel layers that compute on a rank's local tensors, with at most one plain collective each.

transformers loads them as DTensors, whose overhead exceeds the collective's time: 2.4 ms instead of 0.6 ms
for the all-reduce of a decode step on two CPU ranks. Covers plain linear and embedding layers; others keep
transformers' implementation.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import distributed, nn
from torch.nn.functional import embedding, linear, pad

LayerForward = Callable[[Any, torch.Tensor], torch.Tensor]

OUTPUTS, INPUTS = -2, -1  # dimensions of a weight (out, in) or (experts, out, in)


class Division(NamedTuple):
    """How the ranks divide a weight: the dimension, and the number of blocks that are divided one by one."""

    dim: int
    num_blocks: int = 1


# By style: transformers, distributed/tensor_parallel.py, ALL_PARALLEL_STYLES. Others divide no weight.
# Gate and up of experts are two blocks of one weight.
DIVISIONS: Mapping[str | None, Division] = {
    "colwise": Division(OUTPUTS),
    "colwise_gather_output": Division(OUTPUTS),
    "colwise_rep": Division(OUTPUTS),
    "embedding_colwise": Division(INPUTS),
    "embedding_rowwise": Division(OUTPUTS),
    "packed_colwise": Division(OUTPUTS, 2),
    "packed_rowwise": Division(INPUTS, 2),
    "rowwise": Division(INPUTS),
    "rowwise_rep": Division(INPUTS),
    "rowwise_split_input": Division(INPUTS),
}


def use_plain_collectives(model: Any) -> None:
    """Replace the weights and the forward of the model's plain layers. No effect without a process group."""
    if not distributed.is_initialized():
        return
    for name, module in model.named_modules():
        forward = FORWARDS.get((planned_style(model, name), type(module)))
        if forward is not None and is_dtensor(module.weight):
            to_plain_tensors(module)
            module.forward = partial(forward, module)


def planned_style(model: Any, name: str) -> str | None:
    """The style of the module or parameter `name` in transformers' plan; None if it is not in the plan.

    The plan has * for the number of a layer; a digit within a name, as in fc1, stays.
    """
    style: str | None = model.tp_plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
    return style


def is_dtensor(weight: Any) -> bool:
    """Whether a weight is spread over the ranks. Importing its class would cost every process 0.5 s."""
    return hasattr(weight, "to_local")


def to_plain_tensors(module: Any) -> None:
    """Replace the module's DTensors by this rank's local tensors."""
    for name, weight in list(module.named_parameters(recurse=False)):
        module.register_parameter(name, nn.Parameter(local_values(weight), requires_grad=False))


def local_values(weight: Any) -> torch.Tensor:
    """This rank's part of a weight, or the weight if every rank has all of it."""
    values: torch.Tensor = weight.to_local() if is_dtensor(weight) else weight
    return values


def colwise(layer: nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """This rank's output features."""
    return linear(input, layer.weight, layer.bias)


def colwise_gathered_output(layer: nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """The output features of all ranks. The last ranks may have fewer, padded for the collective."""
    widest = -(-layer.out_features // distributed.get_world_size())
    output = colwise(layer, input)
    output = pad(output, (0, widest - output.shape[-1])).contiguous()
    outputs = [torch.empty_like(output) for _ in range(distributed.get_world_size())]
    distributed.all_gather(outputs, output)
    return torch.cat(outputs, -1)[..., : layer.out_features]


def rowwise(layer: nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' outputs, each computed from the rank's input features."""
    output = linear(input, layer.weight)
    distributed.all_reduce(output)
    return output if layer.bias is None else output + layer.bias


def vocab_parallel(layer: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    """The embeddings of ids; each is stored on one rank, and is zero on the others before the sum."""
    first = distributed.get_rank() * -(-layer.num_embeddings // distributed.get_world_size())
    local_ids = ids - first
    is_local = (local_ids >= 0) & (local_ids < layer.weight.shape[0])
    output = embedding(local_ids * is_local, layer.weight) * is_local[..., None]
    distributed.all_reduce(output)
    return output


FORWARDS: Mapping[tuple[str | None, type], LayerForward] = {
    ("colwise", nn.Linear): colwise,
    ("colwise_gather_output", nn.Linear): colwise_gathered_output,
    ("rowwise", nn.Linear): rowwise,
    ("embedding_rowwise", nn.Embedding): vocab_parallel,
}
