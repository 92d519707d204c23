"""The measurement of this processor: short on any shape, and near to what whole steps take."""

import time
from dataclasses import replace

import pytest
import torch

from checks.speed import cpu_rates
from checks.speed.cpu_rates import CallTimer, measure_cpu, sample_bytes
from checks.speed.estimate import PROMPT_TOKENS, TokenWork, estimate
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
TOLERANCE = 1.4  # on a machine whose memory others use too; an estimate off by two times is off by more
ATTEMPTS = 3


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
    """In turn, each as calls of one thread are timed, because programs beside it come and go."""
    shape = replace(SMALL, layers=(same_dtype(dtype),) * 6, head=dtype)
    work = TokenWork(
        layers_bytes(shape, range(6)),
        matrix_bytes(dtype, shape.vocab, shape.hidden),
        6 * shape.layer_values - skipped_products(shape),
    )
    sample, timer = SampleModel(shape, 1024, threads=1), CallTimer(threads=1)
    decode, prompt = sample.step([1], 256), sample.step([250], 375)

    def ratios() -> tuple[float, float]:
        """Steps' time divided by its estimate: of a decoded token, and of a prompt."""
        native_rates = replace(measure_cpu(shape, 512, threads=1), call_s=0.0)
        speed = estimate(work, native_rates)
        (decode_s,) = timer.typical_times([decode], cpu_rates.DECODE_S, speedup=1)
        (prompt_s,) = timer.typical_times([prompt], 0.0, speedup=1)
        return decode_s * speed.tokens_per_s, PROMPT_TOKENS / 250 * prompt_s / speed.first_token_s

    attempts = (ratios() for _ in range(ATTEMPTS))
    assert any(all(1 / TOLERANCE < ratio < TOLERANCE for ratio in attempt) for attempt in attempts)
