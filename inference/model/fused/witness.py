"""What a model computes with, seen while it computes a few tokens: what attention is told, what modules are
given and make.

Knows hooks and the packed seat; what follows from it is reader.py's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import PreTrainedModel

from inference.model.packed.line import Line
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages
from inference.model.packed.runner import PROBED, SIZE, PackedRunner


class Told(NamedTuple):
    """What a layer's attention was asked for, of so many heads of queries."""

    heads: int
    scale: float
    window: int
    score_cap: float
    sinks: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A module's last call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: Any

    def first(self) -> Tensor:
        """What it was given before all else."""
        return self.args[0] if self.args else next(iter(self.kwargs.values()))


@dataclass(frozen=True, slots=True)
class Seen:
    """Of each attention module, in the order of their calls, what it was told, and the keys and values
    (T, G, D) that it kept; the last calls of the modules watched."""

    told: dict[nn.Module, Told]
    keys: dict[nn.Module, Tensor]
    values: dict[nn.Module, Tensor]
    calls: dict[nn.Module, Called]


def see(model: PreTrainedModel, watched: Iterable[nn.Module]) -> Seen:
    """Have the packed seat compute tokens 0, 1, … at positions 0, 1, …. Raises Unfit where it cannot."""
    told: dict[int, Told] = {}
    calls: dict[nn.Module, Called] = {}

    def kernel(query: Tensor, pages: Pages, line: Line, **asked: Any) -> Tensor:
        told[id(pages)] = Told(
            heads=query.shape[1],
            scale=asked["scale"],
            window=asked["window"] or 0,
            score_cap=asked["softcap"] or 0.0,
            sinks=asked["sinks"] is not None,
        )
        return plain(query, pages, line, **asked)

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> None:
        calls[module] = Called(args, kwargs, made)

    runner = PackedRunner(model, max_rows=1, context=SIZE, area=SIZE, kernel=kernel)
    hooks = [module.register_forward_hook(note, with_kwargs=True) for module in watched]
    try:
        runner.probe()
    finally:
        for hook in hooks:
            hook.remove()
    made = runner.pool.modules
    return Seen(
        {module: told[id(pages)] for module, pages in made.items()},
        {module: pages.keys[0, :PROBED] for module, pages in made.items()},
        {module: pages.values[0, :PROBED] for module, pages in made.items()},
        calls,
    )
