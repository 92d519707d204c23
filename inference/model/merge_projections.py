"""Merges projections that read the same input into one matmul: query, key and value; gate and up.

The layers of a group keep their places and names in the model; their weights become views of one buffer. The
first layer called computes the outputs of all; the others return theirs if they get the same input tensor.
Knows linear layers and their names; nothing of what a model does with them.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from inference.model.reference import COLUMNS, ROWS, Reference

log = logging.getLogger(__name__)

# Names, in transformers' models, of a module's linear layers that read the same input.
MERGEABLE = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"),
    ("gate_proj", "up_proj"),
    ("w1", "w3"),
    ("wi_0", "wi_1"),
    ("q_a_proj", "kv_a_proj_with_mqa"),
    ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"),
    ("in_proj_qkvz", "in_proj_ba"),
)


class MergedLinear(nn.Linear):
    """A linear layer whose outputs are columns of its group's matmul: member `place` of `group`."""

    group: "ProjectionGroup"
    place: int

    def forward(self, hidden: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # all members trace the same matmul: the compiler keeps one
            return self.group.compute(hidden)[self.place]
        return self.group.take_output(self.place, hidden)


class ProjectionGroup:
    """Linear layers that one matmul computes, between `merge` and `unmerge`.

    wasted: number of outputs that were computed and never taken.
    """

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        """Copy the members' weights into one tensor. Raises OutOfMemoryError if memory does not suffice."""
        self.members = members
        self.sizes = [member.out_features for member in members]
        self.weight = torch.cat([member.weight.detach() for member in members])
        biased = any(member.bias is not None for member in members)
        self.bias = torch.cat([bias_of(member).detach() for member in members]) if biased else None
        self.wasted = 0
        self._source: weakref.ref[Tensor] | None = None
        self._outputs: dict[int, Tensor] = {}

    def merge(self) -> None:
        """Make the members views of the group's weights that take their outputs from its matmul."""
        biases = () if self.bias is None else self.bias.split(self.sizes)
        for place, (member, weight) in enumerate(
            zip(self.members, self.weight.split(self.sizes), strict=True)
        ):
            member.weight = nn.Parameter(weight, requires_grad=False)
            if member.bias is not None:
                member.bias = nn.Parameter(biases[place], requires_grad=False)
            member.__class__ = MergedLinear
            member.__dict__ |= {"group": self, "place": place}

    def unmerge(self) -> None:
        """Let each member compute its own output again; its weight stays a view of the group's."""
        for member in self.members:
            member.__class__ = nn.Linear
            del member.__dict__["group"], member.__dict__["place"]

    def compute(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """The outputs of all members, in order."""
        return linear(hidden, self.weight, self.bias).split(self.sizes, -1)

    def take_output(self, place: int, hidden: Tensor) -> Tensor:
        """The output of member `place` for `hidden`; outputs not taken are freed with `hidden`."""
        if place not in self._outputs or self._source is None or self._source() is not hidden:
            self._drop()
            self._outputs = dict(enumerate(self.compute(hidden)))
            self._source = weakref.ref(hidden, self._drop)
        mine = self._outputs.pop(place)
        if not self._outputs:
            self._source = None
        return mine

    def _drop(self, _: object = None) -> None:
        self.wasted += len(self._outputs)
        self._outputs = {}
        self._source = None


def bias_of(member: nn.Linear) -> Tensor:
    """The member's bias (outputs,); zeros if it has none."""
    return member.weight.new_zeros(member.out_features) if member.bias is None else member.bias


def merge_projections(model: PreTrainedModel, device: str) -> list[ProjectionGroup]:
    """Merge all groups on devices of this type, until memory runs out; returns the merged groups.

    Groups are merged one by one, so the weights of at most one group exist twice at a time.
    """
    groups = []
    try:
        for members in mergeable_layers(model, device):
            groups.append(ProjectionGroup(members))
            groups[-1].merge()
    except torch.OutOfMemoryError:
        log.info("%s: out of memory after merging %d projection groups", model.config.model_type, len(groups))
    if device == "cuda":
        torch.cuda.empty_cache()  # return the old weights' memory, for the KV cache
    return groups


def merge_and_verify(
    model: PreTrainedModel, reference: Reference, tolerance: float, device: str = "cuda"
) -> list[ProjectionGroup]:
    """Merge projections, and verify the model's logits; returns the groups that stay merged.

    If an error exceeds `tolerance` (in standard deviations of the logits), all groups are unmerged. A group
    with unused outputs is unmerged in any case.
    """
    groups = merge_projections(model, device)
    if not groups:
        return []
    error = max_recompute_error(reference)
    correct = [group for group in groups if error <= tolerance and not group.wasted]
    for group in groups:
        if group not in correct:
            group.unmerge()
    message = (
        f"{len(correct)} of {len(groups)} projection groups merged, error {error:.2g} of {tolerance:.2g}"
    )
    log.info("%s: %s", model.config.model_type, message)
    return correct


def max_recompute_error(reference: Reference) -> float:
    """Largest error of the model's forward as it is now, in standard deviations; infinite if it raises."""
    try:
        return float(torch.tensor([reference.recompute_error(row, COLUMNS) for row in range(ROWS)]).max())
    except Exception:  # any model code, with weights that it may not support
        log.info("%s: forward fails with changed weights", reference.model.config.model_type, exc_info=True)
        return float("inf")


def mergeable_layers(model: PreTrainedModel, device: str) -> Iterator[list[nn.Linear]]:
    """Yield groups of two or more layers of one module that one matmul can compute."""
    uses = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    for module in model.modules():
        for names in MERGEABLE:
            layers: list[Any] = [getattr(module, name, None) for name in names]
            members = [layer for layer in layers if is_plain_linear(layer) and uses[id(layer.weight)] == 1]
            kinds = {(layer.in_features, layer.weight.dtype, layer.weight.device) for layer in members}
            if len(members) > 1 and len(kinds) == 1 and members[0].weight.device.type == device:
                yield members


def is_plain_linear(layer: object) -> bool:
    """Whether the layer is exactly nn.Linear: not a subclass, not quantized, hooked or wrapped."""
    return (
        type(layer) is nn.Linear
        and type(layer.weight) is nn.Parameter
        and layer.weight.is_floating_point()
        and not layer._forward_pre_hooks
        and not layer._forward_hooks
        and "forward" not in layer.__dict__
    )
