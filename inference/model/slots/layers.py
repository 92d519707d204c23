"""The layers of a transformers Cache that keeps its rows in our memory.

A layer serves the current call: it writes the call's tokens where they stand and hands out views of its rows.
Knows the Cache's interface; not the model that calls it.
"""

from typing import Any

import torch
from transformers import PretrainedConfig
from transformers.cache_utils import (
    CacheLayerMixin,
    DynamicIndexedLayer,
    DynamicLayer,
    LinearAttentionLayer,
)

from inference.model.kept import KEYS_AND_VALUES, kept
from inference.model.slots.call import Call, current
from inference.model.slots.memory import Memory, Table
from inference.model.unfit import Unfit

DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")


def layers(config: PretrainedConfig, memory: Memory) -> list[Any]:
    """Our layer for each that transformers would keep for this model; raises Unfit for an unknown kind."""
    kinds = kept(config)
    # A layer never written to holds nothing, so too many of them do no harm; decoders count theirs elsewhere.
    missing = max(getattr(config, name, 0) or 0 for name in DECODER_LAYERS) - len(kinds)
    return [layer(kind, memory) for kind in kinds] + [Columns(memory) for _ in range(missing)]


def layer(kind: Any, memory: Memory) -> Any:
    if type(kind) in KEYS_AND_VALUES:
        return Columns(memory)
    if type(kind) is DynamicIndexedLayer:
        return Indexed(memory)
    if isinstance(kind, LinearAttentionLayer):
        hybrid = isinstance(kind, DynamicLayer)
        return (Hybrid if hybrid else States)(memory, kind.number_of_states)
    if type(kind).__name__ == "DummyLayer":  # not in every release
        return kind
    raise Unfit(f"remembers by {type(kind).__name__}")


class Columns(CacheLayerMixin):
    """Keys and values by column: token t of row i stands in column t."""

    is_sliding = False

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.tables = memory.table(), memory.table()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the call's keys and values (R, G, q, D); hand out those of its rows, views (R, G, n, D)."""
        call = current()
        assert call is not None, "rows are only there while a call is computed"
        keys, values = self.tables
        return written(keys, call, key_states), written(values, call, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        call = current()
        return (call.columns if call else query_length), 0

    def get_seq_length(self) -> int:
        """Tokens behind those of the call; where its rows differ there is no such number, see quirks.py."""
        call = current()
        return call.columns - call.width if call else 0

    def get_max_length(self) -> int:
        return -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Tables are made by the first update."""


def written(table: Table, call: Call, states: torch.Tensor) -> torch.Tensor:
    """Put the real tokens of states (R, G, q, D) at their slots; the rows up to column n, (R, G, n, D)."""
    R, G, _, D = states.shape
    data = table.like((G, D), states)
    tokens = states.transpose(1, 2).reshape(-1, G, D)
    if call.real is not None:
        tokens = tokens.index_select(0, call.copies.on(data.device, call.real))
    data.view(-1, G, D).index_copy_(0, call.copies.on(data.device, call.slots), tokens)
    return data[call.first : call.first + R, : call.columns].transpose(1, 2)


class Indexed(Columns):
    """A layer that also keeps what picks the columns each token attends to: DeepSeek's sparse attention."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.index = memory.table()

    def update_indexer(self, indexer_key_states: torch.Tensor) -> torch.Tensor:
        """Write the call's index keys (R, q, D); hand out those of its rows, a view (R, n, D)."""
        call = current()
        assert call is not None, "rows are only there while a call is computed"
        return written(self.index, call, indexer_key_states[:, None])[:, 0]


class States(LinearAttentionLayer):
    """Recurrent states by row: transformers' own layer, over views of the call's rows."""

    def __init__(self, memory: Memory, number_of_states: int) -> None:
        super().__init__(number_of_states)
        self.memory = memory
        self.kept: dict[tuple[str, int], Table] = {}

    def lazy_initialization(
        self,
        conv_states: torch.Tensor | None = None,
        recurrent_states: torch.Tensor | None = None,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
    ) -> None:
        """Make the tables for what the first call shows, (R, …)."""
        if conv_states is not None:
            self.conv_kernel_size[state_idx] = conv_kernel_size or conv_states.shape[-1]
            shape = (*conv_states.shape[1:-1], self.conv_kernel_size[state_idx])
            self.keep("conv_states", state_idx, shape, conv_states)
        if recurrent_states is not None:
            self.keep("recurrent_states", state_idx, tuple(recurrent_states.shape[1:]), recurrent_states)

    def keep(self, name: str, index: int, shape: tuple[int, ...], sample: torch.Tensor) -> None:
        self.dtype, self.device = sample.dtype, sample.device
        table = self.kept[name, index] = self.memory.table(whole=True)
        table.like(shape, sample)
        getattr(self, f"is_{name}_initialized")[index] = True
        call = current()
        assert call is not None, "rows are only there while a call is computed"
        self.view(name, index, table, call)

    def show(self, call: Call) -> None:
        """Be the states of the call's rows: those of rows that begin are zero."""
        for (name, index), table in self.kept.items():
            self.view(name, index, table, call)
        self.has_previous_state = dict.fromkeys(range(self.number_of_states), not call.fresh)

    def view(self, name: str, index: int, table: Table, call: Call) -> None:
        assert table.data is not None
        rows = table.data[call.first : call.first + call.num_rows]
        getattr(self, name)[index] = rows.zero_() if call.fresh else rows


class Hybrid(States, Columns):
    """A layer that has both."""

    def __init__(self, memory: Memory, number_of_states: int) -> None:
        Columns.__init__(self, memory)
        States.__init__(self, memory, number_of_states)


class Sources(Columns):
    """Keys and values of what the encoder made of each row's source; written when the row begins."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.tables = memory.table(whole=True), memory.table(whole=True)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the keys and values (R, G, K, D) of rows that begin."""
        call = current()
        assert call is not None and call.fresh, "a source is read once"
        for table, states in zip(self.tables, (key_states, value_states), strict=True):
            _, G, K, D = states.shape
            table.like((K, G, D), states)
            table.widen(K)
            self.rows(table, call, K).copy_(states)
        return key_states, value_states

    def show(self, call: Call, width: int) -> None:
        """Be the keys and values of the call's rows, (R, G, K, D) with K = width."""
        if not call.fresh:
            self.keys, self.values = (self.rows(table, call, width) for table in self.tables)

    def rows(self, table: Table, call: Call, width: int) -> torch.Tensor:
        assert table.data is not None
        return table.data[call.first : call.first + call.num_rows, :width].transpose(1, 2)
