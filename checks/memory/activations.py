"""Peak activation memory of a step, measured by running the model on the meta device.

Counts the bytes of each tensor for as long as it lives. Knows torch's operators, not the architectures.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from checks.memory.meta_mode import MetaMode
from checks.memory.repeated_layers import LayerMode, compute_all_layers, dedup_layers, is_meta
from inference.model.quantization.replace import ONE_BY_ONE

NUM_TOKENS, FEW_TOKENS = 256, 16  # FEW_TOKENS for recurrent models, which loop over the tokens
EXPERT_COUNT_KEYS = ("n_routed_experts", "num_local_experts", "num_experts")


class PeakMemory(MetaMode):
    """While active, records the peak bytes of the tensors created since it was entered.

    Experts are computed one after the other, each with all tokens. Two are enough for the peak: the second
    starts while the output of the first is still alive.
    """

    def __init__(self, num_experts: int) -> None:
        super().__init__()
        # transformers' expert loop may have one more index, for the experts of other ranks.
        self.expert_shapes = ((num_experts, 1), (num_experts + 1, 1))
        self.peak_bytes = self.current_bytes = 0
        self.storages: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        input_storages = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if is_meta(leaf)}
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.aten.nonzero.default and result.shape in self.expert_shapes:
            result = result[:2].clone()
        for leaf in tree_leaves(result):
            if is_meta(leaf) and id(leaf.untyped_storage()) not in input_storages:
                self.add(leaf.untyped_storage())
        return result

    def add(self, storage: torch.UntypedStorage) -> None:
        if storage in self.storages:
            return
        self.storages.add(storage)
        self.current_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        weakref.finalize(storage, self.subtract, storage.nbytes())

    def subtract(self, size: int) -> None:
        self.current_bytes -= size

    def mark(self) -> tuple[int, int]:
        mark = self.current_bytes, self.peak_bytes
        self.peak_bytes = self.current_bytes
        return mark

    def delta(self, mark: tuple[int, int], remaining_bytes: int) -> int | None:
        """The layer's peak above the bytes at `mark`.

        None if the layer left other than `remaining_bytes` bytes alive: it cannot represent other layers.
        """
        bytes_before, peak_before = mark
        delta, self.peak_bytes = self.peak_bytes - bytes_before, max(peak_before, self.peak_bytes)
        return delta if self.current_bytes - bytes_before == remaining_bytes else None

    def replay(self, delta: int) -> None:
        self.peak_bytes = max(self.peak_bytes, self.current_bytes + delta)


def count_experts(config: Any) -> int:
    """The number of experts of a layer; 0 for a dense model."""
    return next((int(count) for name in EXPERT_COUNT_KEYS if (count := getattr(config, name, None))), 0)


def measure_activations(model: Any) -> int:
    """Peak bytes of a step per token, without KV cache and logits; 0 if the peak depends on values.

    The model is on the meta device.
    """
    for layer_mode in (dedup_layers, compute_all_layers):
        try:
            return activation_bytes_per_token(model, layer_mode)
        except Exception:  # a failure of the architecture; the estimate omits this term
            continue
    return 0


def activation_bytes_per_token(model: Any, layer_mode: LayerMode) -> int:
    """measure_activations with one layer mode. Raises whatever the architecture raises."""
    num_tokens = FEW_TOKENS if getattr(model, "_is_stateful", False) else NUM_TOKENS
    ids = torch.zeros(1, num_tokens, dtype=torch.long, device="meta")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(ONE_BY_ONE)  # worst case: one expert gets all tokens
    base_model = getattr(model, model.base_model_prefix, None) or model
    inputs = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    peak_memory = PeakMemory(count_experts(model.config.get_text_config()))
    with torch.no_grad(), peak_memory, layer_mode(model, peak_memory):
        base_model(input_ids=ids, use_cache=False, **inputs)
    return peak_memory.peak_bytes // num_tokens
