"""The measurement of this processor: short on any shape, and near to what whole steps take."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import pytest
import torch

from checks.speed import cpu_rates
from checks.speed.cpu_rates import CallTimer, measure_cpu, sample_bytes
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


def spin(seconds: float) -> None:
    """Use the processor for so many CPU seconds."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_the_lower_quartile_counts() -> None:
    seconds = iter([0.0, 0.002, 0.012, 0.012])
    timer = CallTimer(threads=1)
    typical_s, *_ = timer.typical_times([lambda: spin(next(seconds))], 0.0, speedup=1)
    assert 0.002 <= typical_s < 0.012


def test_a_call_without_a_core_counts_its_cpu_time() -> None:
    timer = CallTimer(threads=1)
    assert timer.seconds_of(lambda: (spin(0.005), time.sleep(0.1)), speedup=1) < 0.05
    assert 0.5 < timer.other_load < 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [NativeDtype.BF16, NativeDtype.INT8], ids=lambda it: it.name)
@torch.inference_mode()
def test_the_estimate_is_near_to_whole_steps(dtype: NativeDtype) -> None:
    """In CPU time of one thread, which other programs lengthen little."""
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
