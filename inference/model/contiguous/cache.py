"""The layers of a transformers Cache over ContiguousMemory.

A layer serves the current call: it writes the call's tokens to their columns and returns views of its rows.
Knows the Cache interface; not the model that calls it.
"""

from typing import Any

import torch
from transformers import PretrainedConfig
from transformers.cache_utils import CacheLayerMixin, DynamicIndexedLayer, DynamicLayer, LinearAttentionLayer

from inference.model.batch import UnsupportedModel
from inference.model.cache_layers import KV_LAYERS, build_cache_layers
from inference.model.contiguous.call import ForwardCall, current_call
from inference.model.contiguous.kv_memory import ContiguousMemory, ContiguousTensor

DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")


def build_layers(config: PretrainedConfig, memory: ContiguousMemory) -> list[Any]:
    """One layer for each that transformers would build; raises UnsupportedModel for an unknown kind."""
    kinds = build_cache_layers(config)
    # Some configs count decoder layers under another key. Surplus layers are harmless: they take no memory.
    missing = max(getattr(config, name, 0) or 0 for name in DECODER_LAYERS) - len(kinds)
    return [build_layer(kind, memory) for kind in kinds] + [KVLayer(memory) for _ in range(missing)]


def build_layer(kind: Any, memory: ContiguousMemory) -> Any:
    if type(kind) in KV_LAYERS:
        return KVLayer(memory)
    if type(kind) is DynamicIndexedLayer:
        return IndexedKVLayer(memory)
    if isinstance(kind, LinearAttentionLayer):
        hybrid = isinstance(kind, DynamicLayer)
        return (HybridLayer if hybrid else StateLayer)(memory, kind.number_of_states)
    if type(kind).__name__ == "DummyLayer":  # not in every release
        return kind
    raise UnsupportedModel(f"keeps state in an unknown cache layer, {type(kind).__name__}")


class KVLayer(CacheLayerMixin):
    """Keys and values by column: token t of row i is in column t."""

    is_sliding = False

    def __init__(self, memory: ContiguousMemory) -> None:
        super().__init__()
        self.kv_tensors = memory.add_tensor(), memory.add_tensor()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the call's keys and values (R, G, q, D); returns those of its rows, views (R, G, n, D)."""
        call = running_call()
        keys, values = self.kv_tensors
        return write_tokens(keys, call, key_states), write_tokens(values, call, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        call = current_call()
        return (call.columns if call else query_length), 0

    def get_seq_length(self) -> int:
        """Cached tokens before those of the call; undefined if the rows differ, see position_fixes.py."""
        call = current_call()
        return call.columns - call.width if call else 0

    def get_max_length(self) -> int:
        return -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the first update allocates the tensors."""


def running_call() -> ForwardCall:
    call = current_call()
    assert call is not None, "the cache is used only within a call"
    return call


def write_tokens(target: ContiguousTensor, call: ForwardCall, states: torch.Tensor) -> torch.Tensor:
    """Write the real tokens of states (R, G, q, D); returns the rows up to column n, (R, G, n, D)."""
    R, G, _, D = states.shape
    data = target.get_or_allocate((G, D), states)
    tokens = states.transpose(1, 2).reshape(-1, G, D)
    if call.real is not None:
        tokens = tokens.index_select(0, call.copies.on_device(data.device, call.real))
    data.view(-1, G, D).index_copy_(0, call.copies.on_device(data.device, call.slot_mapping), tokens)
    return data[call.first : call.first + R, : call.columns].transpose(1, 2)


class IndexedKVLayer(KVLayer):
    """A layer with index keys, which select the columns a token attends to: DeepSeek's sparse attention."""

    def __init__(self, memory: ContiguousMemory) -> None:
        super().__init__(memory)
        self.index = memory.add_tensor()

    def update_indexer(self, indexer_key_states: torch.Tensor) -> torch.Tensor:
        """Write the call's index keys (R, q, D); returns those of its rows, a view (R, n, D)."""
        return write_tokens(self.index, running_call(), indexer_key_states[:, None])[:, 0]


class StateLayer(LinearAttentionLayer):
    """Recurrent states by row: transformers' own layer, over views of the call's rows."""

    def __init__(self, memory: ContiguousMemory, number_of_states: int) -> None:
        super().__init__(number_of_states)
        self.memory = memory
        self.state_tensors: dict[tuple[str, int], ContiguousTensor] = {}

    def lazy_initialization(
        self,
        conv_states: torch.Tensor | None = None,
        recurrent_states: torch.Tensor | None = None,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
    ) -> None:
        """Allocate the state tensors in the shapes of the first call, (R, …)."""
        if conv_states is not None:
            self.conv_kernel_size[state_idx] = conv_kernel_size or conv_states.shape[-1]
            shape = (*conv_states.shape[1:-1], self.conv_kernel_size[state_idx])
            self.add_state("conv_states", state_idx, shape, conv_states)
        if recurrent_states is not None:
            self.add_state("recurrent_states", state_idx, tuple(recurrent_states.shape[1:]), recurrent_states)

    def add_state(self, name: str, index: int, shape: tuple[int, ...], sample: torch.Tensor) -> None:
        self.dtype, self.device = sample.dtype, sample.device
        tensor = self.state_tensors[name, index] = self.memory.add_tensor(per_row=True)
        tensor.get_or_allocate(shape, sample)
        getattr(self, f"is_{name}_initialized")[index] = True
        self.view(name, index, tensor, running_call())

    def select_rows(self, call: ForwardCall) -> None:
        """Select the states of the call's rows, and zero them if it is their first step."""
        for (name, index), tensor in self.state_tensors.items():
            self.view(name, index, tensor, call)
        self.has_previous_state = dict.fromkeys(range(self.number_of_states), not call.first_step)

    def view(self, name: str, index: int, tensor: ContiguousTensor, call: ForwardCall) -> None:
        assert tensor.data is not None
        rows = tensor.data[call.first : call.first + call.num_rows]
        getattr(self, name)[index] = rows.zero_() if call.first_step else rows


class HybridLayer(StateLayer, KVLayer):
    """A layer with recurrent states and with keys and values."""

    def __init__(self, memory: ContiguousMemory, number_of_states: int) -> None:
        KVLayer.__init__(self, memory)
        StateLayer.__init__(self, memory, number_of_states)


class CrossKVLayer(KVLayer):
    """Cross-attention keys and values of each row's encoder output; written at its first step."""

    def __init__(self, memory: ContiguousMemory) -> None:
        super().__init__(memory)
        self.kv_tensors = memory.add_tensor(per_row=True), memory.add_tensor(per_row=True)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the keys and values (R, G, K, D) of rows at their first step."""
        call = running_call()
        assert call.first_step, "cross-attention keys are written at the first step only"
        for tensor, states in zip(self.kv_tensors, (key_states, value_states), strict=True):
            _, G, K, D = states.shape
            tensor.get_or_allocate((K, G, D), states)
            tensor.widen(K)
            self.row_view(tensor, call, K).copy_(states)
        return key_states, value_states

    def select_rows(self, call: ForwardCall, width: int) -> None:
        """Select the keys and values of the call's rows, (R, G, K, D) with K = width."""
        if not call.first_step:
            self.keys, self.values = (self.row_view(tensor, call, width) for tensor in self.kv_tensors)

    def row_view(self, target: ContiguousTensor, call: ForwardCall, width: int) -> torch.Tensor:
        assert target.data is not None
        return target.data[call.first : call.first + call.num_rows, :width].transpose(1, 2)
