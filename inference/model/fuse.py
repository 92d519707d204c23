"""Projections that read the same input become one matmul: query, key and value; gate and up.

The members of a group stay where they are, under their names; their weights become views of one buffer. The
first of them that is called computes all parts, and the others take theirs if they are given the same tensor.
Knows linear layers and their names; nothing of what a model does with them.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from inference.model.trial import COLUMNS, ROWS, Trial

log = logging.getLogger(__name__)

# Names of layers in one module that read the same input, in transformers' models.
SIBLINGS = (
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


class Group:
    """Layers computed together, from when they join until they leave. `wasted` counts parts nobody took."""

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        """Raises OutOfMemoryError where there is no room to hold the members' weights twice."""
        self.members = members
        self.sizes = [member.out_features for member in members]
        self.weight = torch.cat([member.weight.detach() for member in members])
        biased = any(member.bias is not None for member in members)
        self.bias = torch.cat([shift(member).detach() for member in members]) if biased else None
        self.wasted = 0
        self._source: weakref.ref[Tensor] | None = None
        self._parts: dict[int, Tensor] = {}

    def join(self) -> None:
        """From now on the members compute together. The weights they had are given up for views of ours."""
        biases = () if self.bias is None else self.bias.split(self.sizes)
        for place, (member, weight) in enumerate(
            zip(self.members, self.weight.split(self.sizes), strict=True)
        ):
            member.weight = nn.Parameter(weight, requires_grad=False)
            if member.bias is not None:
                member.bias = nn.Parameter(biases[place], requires_grad=False)
            member.__dict__["forward"] = partial(self.part, place)

    def leave(self) -> None:
        """Each member computes for itself again."""
        for member in self.members:
            del member.__dict__["forward"]

    def part(self, place: int, given: Tensor) -> Tensor:
        """What the member at `place` makes of `given`. Parts are held as long as `given` lives, at most."""
        if place not in self._parts or self._source is None or self._source() is not given:
            self._drop()
            self._parts = dict(enumerate(linear(given, self.weight, self.bias).split(self.sizes, -1)))
            self._source = weakref.ref(given, self._drop)
        mine = self._parts.pop(place)
        if not self._parts:
            self._source = None
        return mine

    def _drop(self, _: object = None) -> None:
        self.wasted += len(self._parts)
        self._parts = {}
        self._source = None


def shift(member: nn.Linear) -> Tensor:
    """What the member adds, zeros where it has no bias."""
    return member.weight.new_zeros(member.out_features) if member.bias is None else member.bias


def fuse(model: PreTrainedModel, device: str) -> list[Group]:
    """Join the groups on devices of this type, one at a time: at most one group's weights are there twice."""
    groups = []
    try:
        for members in siblings(model, device):
            groups.append(Group(members))
            groups[-1].join()
    except torch.OutOfMemoryError:
        log.info("%s: no memory to join more than %d groups of layers", model.config.model_type, len(groups))
    if device == "cuda":
        torch.cuda.empty_cache()  # what the weights took before is free for keys and values
    return groups


def proved(model: PreTrainedModel, trial: Trial, tolerance: float, device: str = "cuda") -> list[Group]:
    """Fuse the model, and undo what does not compute as it did, or computes what nobody takes; the groups
    that stay."""
    groups = fuse(model, device)
    if not groups:
        return []
    error = departure(trial)
    kept = [group for group in groups if error <= tolerance and not group.wasted]
    for group in groups:
        if group not in kept:
            group.leave()
    told = f"{len(kept)} of {len(groups)} groups of layers joined, error {error:.0e}"
    log.info("%s: %s", model.config.model_type, told)
    return kept


def departure(trial: Trial) -> float:
    """By how much the model's forward now differs from the truth; infinite where it fails."""
    try:
        return float(torch.tensor([trial.changed(row, COLUMNS) for row in range(ROWS)]).max())
    except Exception:  # code of any model, given a view where it had a tensor of its own
        log.info("%s: its joined layers fail", trial.model.config.model_type, exc_info=True)
        return float("inf")


def siblings(model: PreTrainedModel, device: str) -> Iterator[list[nn.Linear]]:
    """Layers of one module that can be a group."""
    uses = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    for module in model.modules():
        for names in SIBLINGS:
            found: list[Any] = [getattr(module, name, None) for name in names]
            members = [layer for layer in found if plain(layer) and uses[id(layer.weight)] == 1]
            kinds = {(layer.in_features, layer.weight.dtype, layer.weight.device) for layer in members}
            if len(members) > 1 and len(kinds) == 1 and members[0].weight.device.type == device:
                yield members


def plain(layer: object) -> bool:
    """Whether the layer is what torch calls linear and nothing more: not quantised, hooked or wrapped."""
    return (
        type(layer) is nn.Linear
        and type(layer.weight) is nn.Parameter
        and layer.weight.is_floating_point()
        and not layer._forward_pre_hooks
        and not layer._forward_hooks
        and "forward" not in layer.__dict__
    )
