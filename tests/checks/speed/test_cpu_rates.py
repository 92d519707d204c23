"""The measurement of this processor: short on any shape, and near to what whole steps take."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import pytest
import torch

from checks.speed import cpu_rates
from checks.speed.cpu_rates import measure_cpu, sample_bytes, typical_times
from checks.speed.estimate import TokenWork, estimate
from checks.speed.shape import layers_bytes, skipped_products
from inference.model.quantization.schemes import matrix_bytes
from inference.native.library import available
from inference.native.sample_model import DecoderShape, SampleModel, same_dtype
from inference.native.structs import NativeDtype

pytestmark = pytest.mark.skipif(not available(), reason="no native library")
TINY = DecoderShape(
    hidden=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    inner=64,
    vocab=320,
    layers=(same_dtype(NativeDtype.BF16),) * 2,
    head=NativeDtype.BF16,
)
SMALL = replace(TINY, hidden=512, num_heads=8, head_dim=64, inner=2048, vocab=8192)
TOLERANCE = 1.6  # on a machine whose memory others use too


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DECODE_S", "PROMPT_S", "CALL_S"):
        monkeypatch.setattr(cpu_rates, name, 0.005)


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize(
    "dtype", [NativeDtype.F32, NativeDtype.INT4, NativeDtype.Q8_0], ids=lambda it: it.name
)
def test_every_format_has_rates(dtype: NativeDtype) -> None:
    shape = replace(TINY, layers=(same_dtype(dtype),) * 3, head=dtype, has_biases=True)
    rates = measure_cpu(shape, max_batch_tokens=512, threads=1)
    assert min(rates.layer_bytes, rates.head_bytes, rates.products, rates.call_s) > 0
    assert 0 <= rates.other_load < 1 and not rates.is_limit


def test_the_sample_is_larger_than_the_caches() -> None:
    assert cpu_rates.MIN_LAYER_BYTES <= sample_bytes() <= cpu_rates.MAX_LAYER_BYTES


def test_the_slowest_calls_do_not_count() -> None:
    seconds = iter([0.0, 0.02, 0.0, 0.02, 0.0, 0.02])
    typical, *_ = typical_times([lambda: time.sleep(next(seconds, 0.0))], 0.0)
    assert typical < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [NativeDtype.BF16, NativeDtype.INT8], ids=lambda it: it.name)
@torch.inference_mode()
def test_the_estimate_is_near_to_whole_steps(dtype: NativeDtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """In CPU time of one thread, which other programs lengthen little."""
    monkeypatch.setattr(cpu_rates, "seconds_of", cpu_seconds)
    shape = replace(SMALL, layers=(same_dtype(dtype),) * 6, head=dtype)
    work = TokenWork(
        layers_bytes(shape, range(6)),
        matrix_bytes(dtype, shape.vocab, shape.hidden),
        6 * shape.layer_values - skipped_products(shape),
    )
    sample = SampleModel(shape, 1024, threads=1)
    decode, prompt = sample.step([1], 256), sample.step([500], 250)
    speed = estimate(work, measure_cpu(shape, 512, threads=1))
    decode_s = median(cpu_seconds(decode) for _ in range(3))
    prompt_s = 2 * median(cpu_seconds(prompt) for _ in range(3))
    assert 1 / TOLERANCE < decode_s * speed.tokens_per_s < TOLERANCE
    assert 1 / TOLERANCE < prompt_s / speed.first_token_s < TOLERANCE


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process in a call."""
    began_s = time.process_time()
    call()
    return time.process_time() - began_s
