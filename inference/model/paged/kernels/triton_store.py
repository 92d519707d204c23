"""A StoreKernel in Triton: one launch writes the keys and the values of a layer, where torch needs two."""

import torch
import triton
import triton.language as tl


def store(
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """A StoreKernel (see kv_pool.py)."""
    key, value = (each if each.stride(-1) == 1 else each.contiguous() for each in (key, value))
    T, G, D = key.shape
    E = value.shape[2]
    with torch.cuda.device_of(key):
        store_token[T,](
            key,
            value,
            keys,
            values,
            slot_mapping,
            *key.stride()[:2],
            *value.stride()[:2],
            G=G,
            D=D,
            E=E,
            BLOCK=triton.next_power_of_2(G * max(D, E)),
        )


@triton.jit(do_not_specialize=["key_token", "key_head", "value_token", "value_head"])
def store_token(
    key: tl.tensor,  # (T, G, D), strides key_token, key_head, 1
    value: tl.tensor,  # (T, G, E), strides value_token, value_head, 1
    keys: tl.tensor,  # (slots, G, D)
    values: tl.tensor,  # (slots, G, E)
    slot_mapping: tl.tensor,  # (T,)
    key_token: tl.tensor,
    key_head: tl.tensor,
    value_token: tl.tensor,
    value_head: tl.tensor,
    G: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Copy the keys and values of one token into its slot."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    i = tl.arange(0, BLOCK)
    data = tl.load(key + token * key_token + i // D * key_head + i % D, mask=i < G * D)
    tl.store(keys + slot * (G * D) + i, data, mask=i < G * D)
    data = tl.load(value + token * value_token + i // E * value_head + i % E, mask=i < G * E)
    tl.store(values + slot * (G * E) + i, data, mask=i < G * E)
