"""Keys and values in 8 bits, at each CPU level: the bits that torch writes, and attention over them."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference.model.paged.q8_0 import quantize
from inference.native.cpu_levels import Level
from inference.native.structs import NativeDtype
from tests.native.llama import Llama, LlamaShape

F32, BF16 = NativeDtype.F32, NativeDtype.BF16
PLAIN = LlamaShape(kv_in_blocks=True)
SHAPES = {
    "llama": PLAIN,
    "a window and a softcap": replace(PLAIN, windows=(70, 0), attn_logit_softcap=5, head_norms=True),
    "80 wide, a head each": replace(PLAIN, num_heads=3, num_kv_heads=3, head_dim=80, rotary=80),
    "128 wide, one group": replace(PLAIN, num_heads=6, num_kv_heads=1, head_dim=128, rotary=64),
    "18 wide, short pages": replace(PLAIN, num_heads=5, num_kv_heads=5, head_dim=18, rotary=18, page=5),
}
NUM_TOKENS = 150  # more than attention packs at once


def ids_of(count: int) -> list[int]:
    return [(7 * place * place + 3 * place) % PLAIN.vocab for place in range(count)]


def error(logits: Tensor, expected: Tensor) -> float:
    """The largest error, in standard deviations of `expected`."""
    return float((logits.double() - expected).abs().max() / expected.std())


def compute(llama: Llama) -> Tensor:
    """The logits of NUM_TOKENS tokens: a prompt in two chunks, then single tokens."""
    ids, pages = ids_of(NUM_TOKENS), list(reversed(range(llama.pages)))
    steps = ((0, 40), (40, NUM_TOKENS - 3), *((at, at + 1) for at in range(NUM_TOKENS - 3, NUM_TOKENS)))
    return torch.cat([llama.step([(ids[start:end], start, pages)]) for start, end in steps])


@pytest.mark.parametrize("name", SHAPES)
def test_attention_equals_a_plain_computation_over_the_same_integers(level: Level, name: str) -> None:
    """An integer that rounds the other way, as rounding is close, moves a logit by 1e-3."""
    llama = Llama(SHAPES[name])
    assert error(compute(llama), llama.plain(ids_of(NUM_TOKENS))) < 5e-3


@pytest.mark.parametrize("name", ("llama", "80 wide, a head each"))
def test_a_bfloat16_model_is_as_precise_as_its_bits_allow(level: Level, name: str) -> None:
    llama = Llama(replace(SHAPES[name], dtype=BF16, kind=BF16, head_kind=BF16))
    assert error(compute(llama), llama.plain(ids_of(NUM_TOKENS))) < 0.1


@pytest.mark.parametrize("name", ("llama", "18 wide, short pages"))
def test_the_integers_and_scales_are_those_of_torch(level: Level, name: str) -> None:
    in_blocks, in_floats = Llama(SHAPES[name]), Llama(replace(SHAPES[name], kv_in_blocks=False))
    for llama in (in_blocks, in_floats):
        compute(llama)
    for place in ("keys", "values"):  # of the first layer, whose inputs are the same
        assert torch.equal(in_blocks.pools[0][place], quantize(in_floats.pools[0][place]))


def test_scales_are_rounded_as_torch_rounds(level: Level) -> None:
    """Among them subnormal float16, zero, one beyond the largest float16, and no number."""
    shape = replace(PLAIN, rotary=0, num_heads=1, num_kv_heads=1)
    for factor in (1e-9, 1e-5, 3e-4, 1.0, 777.0, 1e9, math.inf, math.nan):
        both = [Llama(replace(shape, kv_in_blocks=in_blocks)) for in_blocks in (True, False)]
        for llama in both:
            llama.model.layer[0].before_attention = None
            llama.model.embedding_scale = factor
            llama.step([(ids_of(20), 0, [0, 1])])
        assert torch.equal(both[0].pools[0]["keys"], quantize(both[1].pools[0]["keys"]))
