"""What a mask's pattern lets a token see, where that is itself and a number of tokens before it.

Knows transformers' mask functions as predicates over positions; nothing of a model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from inference.model.unfit import Unfit

FAR = 1 << 20  # tokens; more than any window
PLACES = (FAR, FAR - 1, FAR - 777)  # patterns that count from somewhere else give themselves away


@dataclass(frozen=True, slots=True)
class Window:
    """A token sees the last `width` up to itself; None: all of them. 0, which no layer is told, is what some
    models make and do not use."""

    width: int | None

    def __str__(self) -> str:
        return "all before it" if self.width is None else f"a window of {self.width}"


def window_of(pattern: Callable[..., torch.Tensor]) -> Window:
    """The window that a pattern (row, head, query, column) is. Raises Unfit where it is none."""
    windows = {at_place(pattern, place) for place in PLACES}
    if len(windows) > 1:
        raise Unfit("attention sees more than a window")
    return windows.pop()


def at_place(pattern: Callable[..., torch.Tensor], place: int) -> Window:
    zero = torch.zeros((), dtype=torch.int64)
    columns = torch.arange(place + 2)
    seen = pattern(zero, zero, torch.tensor(place), columns).expand(len(columns))
    if not bool(seen.any()):
        return Window(0)
    first = int(seen.int().argmax())
    if not bool(seen[first : place + 1].all()) or bool(seen[place + 1]):
        raise Unfit("attention sees what is no window")
    return Window(place + 1 - first if first else None)
