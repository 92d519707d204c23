"""How much memory a step takes while it is computed: a model without values computes, and what it makes is
counted as long as it lives.

Knows torch's operators; nothing of models.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from checks.measure.blind import Blind
from checks.measure.repeats import Way, computing, is_meta, repeating
from inference.model.weights.swap import ONE_BY_ONE

TOKENS, FEW = 256, 16  # the few are for models that go through tokens one by one
EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")


class Tally(Blind):
    """While it is entered: the most bytes that tensors which were made meanwhile held at one time.

    Of `experts`, who take turns and each have all tokens, the first two are computed alone: what one leaves
    behind is there while the next begins.
    """

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.hits = ((experts, 1), (experts + 1, 1))  # one more stands for those of other machines
        self.most = self.now = 0
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if is_meta(leaf)}
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.aten.nonzero.default and made.shape in self.hits:
            made = made[:2].clone()
        for leaf in tree_leaves(made):
            if is_meta(leaf) and id(leaf.untyped_storage()) not in given:
                self.count(leaf.untyped_storage())
        return made

    def count(self, storage: torch.UntypedStorage) -> None:
        if storage in self.known:
            return
        self.known.add(storage)
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.freed, storage.nbytes())

    def freed(self, size: int) -> None:
        self.now -= size

    def mark(self) -> tuple[int, int]:
        mark = self.now, self.most
        self.most = self.now
        return mark

    def took(self, mark: tuple[int, int], left: int) -> int | None:
        """How much more than before there was at most. A layer that keeps something aside is none to go by:
        who is to give it up again?"""
        now, most = mark
        took, self.most = self.most - now, max(most, self.most)
        return took if self.now - now == left else None

    def again(self, took: int) -> None:
        self.most = max(self.most, self.now + took)


def experts_of(config: Any) -> int:
    """How many experts a layer has; 0 where it has none."""
    return next((int(count) for name in EXPERTS if (count := getattr(config, name, None))), 0)


def work(model: Any) -> int:
    """Bytes that a step takes for each of its tokens, besides what sequences keep and the logits; 0 where
    that cannot be found out without values. The model is on the meta device.
    """
    for way in (repeating, computing):
        try:
            return taken(model, way)
        except Exception:  # an architecture's own failure; the estimate goes without
            continue
    return 0


def taken(model: Any, way: Way) -> int:
    """The same, its layers computed in this way. Raises whatever the architecture does."""
    tokens = FEW if getattr(model, "_is_stateful", False) else TOKENS
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(ONE_BY_ONE)  # each with its tokens, of which there may be all
    body = getattr(model, model.base_model_prefix, None) or model
    inputs = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    tally = Tally(experts_of(model.config.get_text_config()))
    with torch.no_grad(), tally, way(model, tally):
        body(input_ids=ids, use_cache=False, **inputs)
    return tally.most // tokens
