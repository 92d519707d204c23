"""The paged keys and values of all rows; each attention module's tensors are allocated at its first call.

Attention modules are divided into cache groups with page tables of their own: group 0, and one for each
WindowGroup. A page id stands for a page in every module of its group. Made before the runners that compute
with it, of which there may be several. Knows pages, widths and bytes; not which row owns a page.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from inference.model.batch import CacheOp, Clear
from inference.model.device_copy import to_device
from inference.model.kv_cost import KVCost, WindowGroup
from inference.model.lazy_zeros import lazy_zeros
from inference.model.paged.q8_0 import head_bytes, store_quantized

PAGE_SIZE = 16  # tokens of a page
KV_DTYPES = AUTO, INT8 = "auto", "int8"  # of keys and values: the model's, or blocks of 8 bits (q8_0.py)


@dataclass(frozen=True, slots=True)
class LayerKV:
    """Keys (N, S, G, D) and values (N, S, G, E) of one attention module: N pages of S tokens, G heads.

    window     its sliding window, None for full attention; group: its cache group
    head_dims  (D, E) if the tensors have blocks of 8 bits instead: (N, S, G, head_bytes(D or E)) of uint8
    """

    keys: torch.Tensor
    values: torch.Tensor
    window: int | None = None
    group: int = 0
    head_dims: tuple[int, int] | None = None


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


class RotaryStoreKernel(Protocol):
    """Rotates query (T, H, D) and key (T, G, D), writes keys and values as a StoreKernel; returns the query.

    cos, sin (T, D): x becomes x cos + rotate_half(x) sin, in which rotate_half swaps the halves of x and
    negates the first of them.
    """

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> torch.Tensor: ...


def rotate_and_store(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """The RotaryStoreKernel of any device."""
    query, key = (rotate(each, cos[:, None], sin[:, None]) for each in (query, key))
    store_by_index(key, value, keys, values, slot_mapping)
    return query


def rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding in float32, rounded once."""
    low, high = states.float().chunk(2, -1)
    return (states.float() * cos.float() + torch.cat((-high, low), -1) * sin.float()).to(states.dtype)


class KVPool:
    """num_pages pages in each attention module, and a padding page: padding tokens write it, no row reads it.

    A module whose window is that of a WindowGroup has this group's pages instead, a padding page, and the
    group's null page.

    layers  the pages of each attention module; empty before the first step
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int = PAGE_SIZE,
        store: StoreKernel = store_by_index,
        window_groups: tuple[WindowGroup, ...] = (),
        rotary_store: RotaryStoreKernel = rotate_and_store,
        kv_dtype: str = AUTO,
    ) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.kv_dtype = kv_dtype
        self.store, self.rotary_store = store_quantized if kv_dtype == INT8 else store, rotary_store
        self.window_groups = window_groups
        self.layers: dict[torch.nn.Module, LayerKV] = {}

    @property
    def capacity(self) -> int:
        """Tokens that the pages hold."""
        return self.num_pages * self.page_size

    @property
    def groups(self) -> range:
        return range(1 + len(self.window_groups))

    def num_pages_of(self, group: int) -> int:
        """The pages of a cache group; this number is the id of its padding page."""
        return self.window_groups[group - 1].num_pages if group else self.num_pages

    def apply(self, cache_ops: Sequence[CacheOp]) -> None:
        """Carry out the cache ops of a step."""
        assert all(isinstance(op, Clear) for op in cache_ops), "pages are never moved"
        clears = [op for op in cache_ops if isinstance(op, Clear)]
        for group in {op.group for op in clears}:
            self.clear({op.row for op in clears if op.group == group}, group)

    def allocate(
        self, module: torch.nn.Module, key: torch.Tensor, value: torch.Tensor, window: int | None
    ) -> LayerKV:
        """The module's pages; the first call allocates them for keys (T, G, D) and values (T, G, E)."""
        if module not in self.layers:
            windows = [each.window for each in self.window_groups]
            group = windows.index(window) + 1 if window in windows else 0
            num_pages = self.num_pages_of(group) + (2 if group else 1)
            keys, values = (self._allocate_pages(num_pages, states) for states in (key, value))
            head_dims = (key.shape[-1], value.shape[-1]) if self.kv_dtype == INT8 else None
            self.layers[module] = LayerKV(keys, values, window, group, head_dims)
        return self.layers[module]

    def _allocate_pages(self, num_pages: int, states: torch.Tensor) -> torch.Tensor:
        """Zeroed pages for keys or values (T, G, D)."""
        _, num_heads, head_dim = states.shape
        if self.kv_dtype == INT8:
            states, head_dim = states.new_empty(0, dtype=torch.uint8), head_bytes(head_dim)
        return lazy_zeros((num_pages, self.page_size, num_heads, head_dim), states)

    def write(self, kv: LayerKV, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        """Write keys (T, G, D) and values (T, G, E) of a module at slot_mapping (T,)."""
        self.store(key, value, kv.keys.flatten(0, 1), kv.values.flatten(0, 1), slot_mapping)

    def rotate_and_write(
        self,
        kv: LayerKV,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> torch.Tensor:
        """As `write`, after rotary embedding by cos and sin (T, D); returns the rotated query (T, H, D)."""
        keys, values = kv.keys.flatten(0, 1), kv.values.flatten(0, 1)
        return self.rotary_store(query, key, value, cos, sin, keys, values, slot_mapping)

    def clear(self, pages: Collection[int], group: int = 0) -> None:
        """Zero the pages of a group: masked values must be numbers too, because 0 × nan is nan."""
        host_index = torch.tensor(list(pages))
        index_by_device: dict[torch.device, torch.Tensor] = {}
        for kv in (each for each in self.layers.values() if each.group == group):
            device = kv.keys.device
            if device not in index_by_device:
                index_by_device[device] = to_device(host_index, device)
            kv.keys.index_fill_(0, index_by_device[device], 0)
            kv.values.index_fill_(0, index_by_device[device], 0)

    def cost(self) -> KVCost:
        """What a token takes in all layers that have computed a step."""
        sizes: Counter[int | None] = Counter()
        for kv in self.layers.values():
            sizes[kv.window] += kv.keys[0, 0].nbytes + kv.values[0, 0].nbytes
        windowed = sorted((window, size) for window, size in sizes.items() if window is not None)
        return KVCost(sizes[None], windowed=tuple(windowed))
