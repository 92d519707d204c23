"""The paged keys and values of all rows; each attention module's tensors are allocated at its first call.

Made before the runners that compute with it, of which there may be several. Knows pages, widths and bytes;
not which row owns a page.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from inference.device_copy import to_device
from inference.model.batch import CacheOp, Clear
from inference.model.lazy_zeros import lazy_zeros

PAGE_SIZE = 16  # tokens of a page


@dataclass(frozen=True, slots=True)
class LayerKV:
    """Keys (N, S, G, D) and values (N, S, G, E) of one attention module: N pages of S tokens, G heads."""

    keys: torch.Tensor
    values: torch.Tensor


class StoreKernel(Protocol):
    """Writes keys (T, G, D) and values (T, G, E) into `keys` (slots, G, D) and `values` (slots, G, E).

    slot_mapping (T,): the slot of each token. All tensors are on one device; the last two are contiguous.
    """

    def __call__(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None: ...


def store_by_index(
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """The StoreKernel of any device."""
    keys.index_copy_(0, slot_mapping, key)
    values.index_copy_(0, slot_mapping, value)


class KVPool:
    """num_pages pages in each attention module, and a padding page: padding tokens write it, no row reads it.

    layers  the pages of each attention module; empty before the first step
    """

    def __init__(
        self, num_pages: int, page_size: int = PAGE_SIZE, store: StoreKernel = store_by_index
    ) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.store = store
        self.layers: dict[torch.nn.Module, LayerKV] = {}

    @property
    def capacity(self) -> int:
        """Tokens that the pages hold."""
        return self.num_pages * self.page_size

    def apply(self, cache_ops: Sequence[CacheOp]) -> None:
        """Carry out the cache ops of a step."""
        if cache_ops:
            assert all(isinstance(op, Clear) for op in cache_ops), "pages are never moved"
            self.clear({op.row for op in cache_ops if isinstance(op, Clear)})

    def allocate(self, module: torch.nn.Module, key: torch.Tensor, value: torch.Tensor) -> LayerKV:
        """The module's pages; the first call allocates them for keys (T, G, D) and values (T, G, E)."""
        if module not in self.layers:
            self.layers[module] = LayerKV(self._zeros(key), self._zeros(value))
        return self.layers[module]

    def write(
        self, module: torch.nn.Module, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor
    ) -> LayerKV:
        """Write keys (T, G, D) and values (T, G, E) at slot_mapping (T,); returns the module's pages."""
        kv = self.layers.get(module) or self.allocate(module, key, value)
        self.store(key, value, kv.keys.flatten(0, 1), kv.values.flatten(0, 1), slot_mapping)
        return kv

    def clear(self, pages: Collection[int]) -> None:
        """Zero the pages: masked values must be numbers too, because 0 × nan is nan."""
        host_index = torch.tensor(list(pages))
        index_by_device: dict[torch.device, torch.Tensor] = {}
        for kv in self.layers.values():
            device = kv.keys.device
            if device not in index_by_device:
                index_by_device[device] = to_device(host_index, device)
            kv.keys.index_fill_(0, index_by_device[device], 0)
            kv.values.index_fill_(0, index_by_device[device], 0)

    def bytes_per_token(self) -> int:
        return sum(pages.keys[0, 0].nbytes + pages.values[0, 0].nbytes for pages in self.layers.values())

    def _zeros(self, states: torch.Tensor) -> torch.Tensor:
        return lazy_zeros((self.num_pages + 1, self.page_size, *states.shape[1:]), states)
