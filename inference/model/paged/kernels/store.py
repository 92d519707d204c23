"""Selects how new keys and values are written into pages: by Triton on a GPU that has it, else by torch."""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from inference.errors import named_error
from inference.model.paged.kernels.shapes import AttentionShape, attention_shapes
from inference.model.paged.kv_pool import RotaryStoreKernel, StoreKernel, rotate_and_store, store_by_index

log = logging.getLogger(__name__)

NUM_SLOTS, NUM_TOKENS = 32, 7  # of the pages and the step by which a kernel is verified


@torch.inference_mode()
def select_store(model: PreTrainedModel) -> StoreKernel:
    """The Triton kernel if it writes the same as torch for every shape of a model, else `store_by_index`."""
    return first_verified(model, "triton_store", "store", stores_equally) or store_by_index


@torch.inference_mode()
def select_rotary_store(model: PreTrainedModel) -> RotaryStoreKernel | None:
    """The Triton kernel if it computes what torch does for every shape of a model, else None."""
    return first_verified(model, "triton_rotary_store", "rotate_and_store", rotates_equally)


def first_verified(
    model: PreTrainedModel, module: str, function: str, is_equal: Callable[[Any, AttentionShape], bool]
) -> Any:
    """The kernel `function` of a module of this folder; None, with the reason logged, if it is not usable."""
    if model.device.type != "cuda":
        return None
    try:
        kernel = getattr(import_module(f"inference.model.paged.kernels.{module}"), function)
        if all(is_equal(kernel, shape) for shape in attention_shapes(model)):
            return kernel
        reason = "wrong values"
    except Exception as raised:  # third-party code: any exception rejects the kernel
        reason = named_error(raised)
    log.info("%s: the kernel %s is not used: %s", model.config.model_type, module, reason)
    return None


class StoreSample(NamedTuple):
    """A step of NUM_TOKENS tokens, and pages of NUM_SLOTS slots: the arguments of a RotaryStoreKernel."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    slot_mapping: torch.Tensor

    def with_new_pages(self) -> "StoreSample":
        return self._replace(keys=self.keys.clone(), values=self.values.clone())


def make_sample(shape: AttentionShape) -> StoreSample:
    """Random numbers; the tokens of a head lie side by side, and the slots are in random order."""
    G, D, E, device = shape.num_kv_heads, shape.head_dim, shape.value_head_dim, shape.device

    def random_values(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=device, dtype=shape.dtype)

    return StoreSample(
        query=random_values(shape.num_heads, NUM_TOKENS, D).transpose(0, 1),
        key=random_values(G, NUM_TOKENS, D).transpose(0, 1),
        value=random_values(G, NUM_TOKENS, E).transpose(0, 1),
        cos=random_values(NUM_TOKENS, D),
        sin=random_values(NUM_TOKENS, D),
        keys=random_values(NUM_SLOTS, G, D),
        values=random_values(NUM_SLOTS, G, E),
        slot_mapping=torch.randperm(NUM_SLOTS, device=device)[:NUM_TOKENS],
    )


def stores_equally(store: StoreKernel, shape: AttentionShape) -> bool:
    """Whether `store` and `store_by_index` write the same into pages of random numbers."""
    actual = make_sample(shape)
    expected = actual.with_new_pages()
    for kernel, sample in ((store, actual), (store_by_index, expected)):
        kernel(sample.key, sample.value, sample.keys, sample.values, sample.slot_mapping)
    return torch.equal(actual.keys, expected.keys) and torch.equal(actual.values, expected.values)


def rotates_equally(kernel: RotaryStoreKernel, shape: AttentionShape) -> bool:
    """Whether `kernel` and `rotate_and_store` compute the same, up to the rounding of sums."""
    actual = make_sample(shape)
    expected = actual.with_new_pages()
    query, expected_query = kernel(*actual), rotate_and_store(*expected)
    eps = 2 * torch.finfo(shape.dtype).eps
    return (
        torch.allclose(query, expected_query, rtol=eps, atol=eps)
        and torch.allclose(actual.keys, expected.keys, rtol=eps, atol=eps)
        and torch.equal(actual.values, expected.values)
    )
