"""Selects how new keys and values are written into pages: by Triton on a GPU that has it, else by torch."""

import logging

import torch
from transformers import PreTrainedModel

from inference.errors import named_error
from inference.model.paged.kernels.shapes import AttentionShape, attention_shapes
from inference.model.paged.kv_pool import StoreKernel, store_by_index

log = logging.getLogger(__name__)

NUM_SLOTS, NUM_TOKENS = 32, 7  # of the pages and the step by which a kernel is verified


@torch.inference_mode()
def select_store(model: PreTrainedModel) -> StoreKernel:
    """The Triton kernel if it writes the same as torch for every shape of a model, else `store_by_index`."""
    if model.device.type != "cuda":
        return store_by_index
    try:
        from inference.model.paged.kernels.triton_store import store

        if all(stores_equally(store, shape) for shape in attention_shapes(model)):
            return store
        reason = "wrong values"
    except Exception as raised:  # third-party code: any exception rejects the kernel
        reason = named_error(raised)
    log.info("%s: the Triton store kernel is not used: %s", model.config.model_type, reason)
    return store_by_index


def stores_equally(store: StoreKernel, shape: AttentionShape) -> bool:
    """Whether `store` and `store_by_index` write the same into pages of random numbers."""
    G, device = shape.num_kv_heads, shape.device
    slots = torch.randperm(NUM_SLOTS, device=device)[:NUM_TOKENS]

    def random_values(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=device, dtype=shape.dtype)

    key, value = (
        random_values(G, NUM_TOKENS, width).transpose(0, 1)
        for width in (shape.head_dim, shape.value_head_dim)
    )
    keys, values = (random_values(NUM_SLOTS, G, each.shape[2]) for each in (key, value))
    expected_keys, expected_values = keys.clone(), values.clone()
    store(key, value, keys, values, slots)
    store_by_index(key, value, expected_keys, expected_values, slots)
    return torch.equal(keys, expected_keys) and torch.equal(values, expected_values)
