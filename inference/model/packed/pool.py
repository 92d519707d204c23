"""Keys and values of all rows in pages: one pool for each attention module, made when it is first called.

Knows pages, widths and bytes; not whose tokens stand where.
"""

from dataclasses import dataclass

import torch

from inference.model.blank import blank


@dataclass(frozen=True, slots=True)
class Pages:
    """Keys (N, S, G, D) and values (N, S, G, E) of one attention module: N pages of S tokens, G heads."""

    keys: torch.Tensor
    values: torch.Tensor


class Pool:
    """The pages of a model, as many in each module, and one more that nothing is read from: what only fills
    up a line is written there."""

    def __init__(self, pages: int, size: int) -> None:
        self.count = pages
        self.size = size
        self.modules: dict[torch.nn.Module, Pages] = {}

    def write(
        self, module: torch.nn.Module, key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor
    ) -> Pages:
        """Put keys (T, G, D) and values (T, G, E) of the module at their slots (T,); its pages."""
        pages = self.modules.get(module)
        if pages is None:
            pages = self.modules[module] = Pages(self.blank(key), self.blank(value))
        for data, states in ((pages.keys, key), (pages.values, value)):
            data.view(-1, *states.shape[1:]).index_copy_(0, slots.to(data.device), states)
        return pages

    def blank(self, states: torch.Tensor) -> torch.Tensor:
        return blank((self.count + 1, self.size, *states.shape[1:]), states)

    def resize(self, count: int) -> None:
        """Have so many pages from now on, blank ones; made at once, so that a lack of memory shows now."""
        self.count = count
        for module, pages in list(self.modules.items()):
            keys, values = pages.keys[0], pages.values[0]
            del self.modules[module], pages
            self.modules[module] = Pages(self.blank(keys), self.blank(values))

    def clear(self, page: int) -> None:
        """Make a page blank again: a mask hides what it holds, but 0 × nan is nan."""
        for pages in self.modules.values():
            pages.keys[page] = 0
            pages.values[page] = 0

    def bytes_per_token(self) -> int:
        return sum(pages.keys[0, 0].nbytes + pages.values[0, 0].nbytes for pages in self.modules.values())
