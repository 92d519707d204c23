"""A RotaryStoreKernel in Triton: one launch rotates queries and keys and writes keys and values of a layer.

As kernels of their own, the two rotations and the store take 2 to 3 us each in a step of one token.
"""

import torch
import triton
import triton.language as tl


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
    """A RotaryStoreKernel (see kv_pool.py)."""
    query, key, value = (each if each.stride(-1) == 1 else each.contiguous() for each in (query, key, value))
    T, H, D = query.shape
    G, E = value.shape[1:]
    rotated = query.new_empty(T, H, D)
    rotate_and_store_token[T, G](
        query,
        key,
        value,
        cos.contiguous(),
        sin.contiguous(),
        rotated,
        keys,
        values,
        slot_mapping,
        *query.stride()[:2],
        *key.stride()[:2],
        *value.stride()[:2],
        G=G,
        GROUP=H // G,
        D=D,
        E=E,
        BLOCK_GROUP=triton.next_power_of_2(H // G),
        BLOCK_HALF=triton.next_power_of_2(D // 2),
        BLOCK_E=triton.next_power_of_2(E),
    )
    return rotated


@triton.jit
def rotate_and_store_token(
    query: tl.tensor,  # (T, H, D), strides query_token, query_head, 1
    key: tl.tensor,  # (T, G, D), strides key_token, key_head, 1
    value: tl.tensor,  # (T, G, E), strides value_token, value_head, 1
    cos: tl.tensor,  # (T, D)
    sin: tl.tensor,  # (T, D)
    rotated: tl.tensor,  # (T, H, D)
    keys: tl.tensor,  # (slots, G, D)
    values: tl.tensor,  # (slots, G, E)
    slot_mapping: tl.tensor,  # (T,)
    query_token: tl.tensor,
    query_head: tl.tensor,
    key_token: tl.tensor,
    key_head: tl.tensor,
    value_token: tl.tensor,
    value_head: tl.tensor,
    G: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    BLOCK_GROUP: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_E: tl.constexpr,
) -> None:
    """Compute one token and one KV head with its GROUP query heads. The programs are (T, G)."""
    HALF: tl.constexpr = D // 2
    token, shared = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = tl.load(slot_mapping + token)
    i = tl.arange(0, BLOCK_HALF)
    in_half = i < HALF
    cos_low = tl.load(cos + token * D + i, mask=in_half).to(tl.float32)
    cos_high = tl.load(cos + token * D + HALF + i, mask=in_half).to(tl.float32)
    sin_low = tl.load(sin + token * D + i, mask=in_half).to(tl.float32)
    sin_high = tl.load(sin + token * D + HALF + i, mask=in_half).to(tl.float32)

    group = tl.arange(0, BLOCK_GROUP)
    head = shared * GROUP + group
    real = (group < GROUP)[:, None] & in_half[None, :]
    source = query + token * query_token + head[:, None] * query_head + i[None, :]
    low = tl.load(source, mask=real).to(tl.float32)
    high = tl.load(source + HALF, mask=real).to(tl.float32)
    target = rotated + (token * (G * GROUP) + head[:, None]) * D + i[None, :]
    dtype = rotated.dtype.element_ty
    tl.store(target, (low * cos_low[None, :] - high * sin_low[None, :]).to(dtype), mask=real)
    tl.store(target + HALF, (high * cos_high[None, :] + low * sin_high[None, :]).to(dtype), mask=real)

    key_source = key + token * key_token + shared * key_head + i
    key_low = tl.load(key_source, mask=in_half).to(tl.float32)
    key_high = tl.load(key_source + HALF, mask=in_half).to(tl.float32)
    key_target = keys + (slot * G + shared) * D + i
    tl.store(key_target, (key_low * cos_low - key_high * sin_low).to(dtype), mask=in_half)
    tl.store(key_target + HALF, (key_high * cos_high + key_low * sin_high).to(dtype), mask=in_half)

    e = tl.arange(0, BLOCK_E)
    states = tl.load(value + token * value_token + shared * value_head + e, mask=e < E)
    tl.store(values + (slot * G + shared) * E + e, states, mask=e < E)
