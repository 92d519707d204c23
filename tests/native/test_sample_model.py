"""Steps of sample models: they compute, in whole and in parts, and count their bytes."""

from dataclasses import replace

import pytest
import torch

from inference.model.paged.q8_0 import head_bytes
from inference.native.library import available
from inference.native.packed_matrix import PANEL
from inference.native.sample_model import DecoderShape, SampleModel, same_dtype
from inference.native.structs import FLOAT_SOURCES, NativeDtype

pytestmark = pytest.mark.skipif(not available(), reason="no native library")


def small_shape(dtype: NativeDtype) -> DecoderShape:
    return DecoderShape(
        hidden=64,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        inner=96,
        vocab=128,
        layers=(same_dtype(dtype),) * 3,
        head=dtype,
        dtype=NativeDtype.F32,
    )


@pytest.mark.parametrize("dtype", FLOAT_SOURCES, ids=lambda dtype: dtype.name)
def test_a_step_writes_finite_logits(dtype: NativeDtype) -> None:
    sample = SampleModel(small_shape(dtype), num_tokens=64, threads=1)
    run = sample.step([3, 2], 5)
    logits = next(each for each in sample.keep_alive if each.shape == (2, 128))
    logits.fill_(torch.nan)
    run()
    assert logits.isfinite().all() and logits.std() > 0


def test_keys_and_values_in_8_bits_fit_their_pool() -> None:
    shape = replace(small_shape(NativeDtype.BF16), has_int8_kv=True)
    sample = SampleModel(shape, num_tokens=64, threads=1)
    assert sample.model.kv_dtype == NativeDtype.Q8_0
    assert shape.head_bytes == head_bytes(shape.head_dim)
    run = sample.step([3, 2], 5)
    logits = next(each for each in sample.keep_alive if each.shape == (2, 128))
    logits.fill_(torch.nan)
    run()
    assert logits.isfinite().all()


def test_layers_alone_write_one_panel() -> None:
    sample = SampleModel(small_shape(NativeDtype.BF16), num_tokens=64, threads=1)
    run = sample.layers_step(5, 8, range(1, 3))
    logits = next(each for each in sample.keep_alive if each.shape == (1, PANEL))
    logits.fill_(torch.nan)
    run()
    assert logits.isfinite().all()


def test_the_bytes_are_those_of_all_matrices() -> None:
    shape = small_shape(NativeDtype.BF16)
    weights = 3 * shape.layer_values + shape.vocab * shape.hidden
    assert SampleModel(shape, num_tokens=64, threads=1).weight_bytes == 2 * weights
