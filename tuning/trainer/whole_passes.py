"""A pass that does not reach its end adds nothing to the gradients of its run, and can be interrupted.

Knows parameters and modules; not what a pass computes.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class PassInterrupted(Exception):
    """The pass was told to end; the run is as it was before it."""


@contextmanager
def whole_pass(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within the block, gradients begin with none. At its end they are added to the former ones.

    If the block raises, the former ones are in place again.
    """
    weights = list(parameters)
    former = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    try:
        yield
    except BaseException:
        for weight, gradient in zip(weights, former, strict=True):
            weight.grad = gradient
        raise
    for weight, gradient in zip(weights, former, strict=True):
        if gradient is not None:
            weight.grad = gradient if weight.grad is None else gradient.add_(weight.grad)


class Interruption:
    """Ends the pass of a model before its next micro-batch, once it is set. A handler of signals sets it."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self, *_: Any) -> None:
        self.is_set = True

    def watch(self, backbone: nn.Module) -> None:
        backbone.register_forward_pre_hook(self._check)

    def _check(self, *_: Any) -> None:
        if self.is_set:
            raise PassInterrupted
