"""Which plans have an estimated speed, and the reasons of those that have none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.preflight import PreflightReport, with_speed
from checks.speed import cpu_rates, plan_speed
from checks.speed.estimate import Rates, Speed, SpeedEstimate, UnknownSpeed
from checks.speed.gpu_rates import measure_gpu
from checks.speed.plan_speed import estimate_speed
from checks.speed.startup import IMPORTS, STEPS
from hub.resolve import from_folder
from inference.finding import Finding
from inference.native.build import NativeUnavailable
from inference.native.sample_model import DecoderShape
from tests.tiny_models import tiny

RATES = Rates(1e9, 1e9, 1e9)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[DecoderShape]:
    """The shapes that were measured; the processor's rates are RATES."""
    shapes: list[DecoderShape] = []

    def measure(shape: DecoderShape, max_batch_tokens: int, threads: int) -> Rates:
        shapes.append(shape)
        return RATES

    monkeypatch.setattr(plan_speed, "measure_cpu", measure)
    return shapes


def reason_of(speed: Speed) -> str:
    assert isinstance(speed, UnknownSpeed)
    return speed.reason


def test_a_model_of_the_fused_runner_has_an_estimate(
    planned: Callable[..., Plan], machine: Machine, measured: list[DecoderShape]
) -> None:
    speed = estimate_speed(planned(), machine)
    assert isinstance(speed, SpeedEstimate) and not speed.is_limit
    assert speed.startup_s is not None and speed.startup_s > STEPS / speed.tokens_per_s
    assert (measured[0].hidden, len(measured[0].layers)) == (32, 2)


@pytest.mark.parametrize("sample_s", [(0.01, 0.02), (0.02, 0.01)])
def test_a_program_that_slows_python_for_a_moment_does_not_slow_the_estimated_start(
    planned: Callable[..., Plan],
    machine: Machine,
    measured: list[DecoderShape],
    monkeypatch: pytest.MonkeyPatch,
    sample_s: tuple[float, float],
) -> None:
    monkeypatch.setattr(plan_speed, "measure_sample", iter(sample_s).__next__)
    speed = estimate_speed(planned(), machine)
    assert isinstance(speed, SpeedEstimate) and speed.startup_s is not None
    assert 0.01 * IMPORTS < speed.startup_s < 0.02 * IMPORTS


def test_a_model_of_another_runner_has_a_limit(
    planned: Callable[..., Plan], machine: Machine, measured: list[DecoderShape]
) -> None:
    speed = estimate_speed(planned(runner="paged"), machine)
    assert isinstance(speed, SpeedEstimate) and speed.is_limit and speed.startup_s is None


def test_the_runner_omits_the_last_layer_of_a_prompt(
    planned: Callable[..., Plan], machine: Machine, measured: list[DecoderShape]
) -> None:
    fused, other = (estimate_speed(planned(runner=runner), machine) for runner in ("auto", "paged"))
    assert isinstance(fused, SpeedEstimate) and isinstance(other, SpeedEstimate)
    assert fused.first_token_s < other.first_token_s
    assert fused.tokens_per_s == other.tokens_per_s


def test_a_model_with_an_encoder_has_none(
    planned: Callable[..., Plan], machine: Machine, tmp_path: Path
) -> None:
    config = transformers.T5Config(
        vocab_size=320, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    folder = tiny.save_model(tmp_path / "t5", transformers.T5ForConditionalGeneration, config)
    source = from_folder("t5", folder)
    assert "encoder" in reason_of(estimate_speed(planned(source), machine))


def test_several_processes_have_none(planned: Callable[..., Plan], machine: Machine) -> None:
    assert "several processes" in reason_of(estimate_speed(planned(num_shard=2), machine))


def test_a_machine_without_memory_for_the_measurement_has_none(
    planned: Callable[..., Plan], machine: Machine
) -> None:
    little = replace(machine, ram=cpu_rates.sample_bytes())
    assert "too little memory" in reason_of(estimate_speed(planned(), little))


def test_a_machine_without_native_code_has_none(
    planned: Callable[..., Plan], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Rates:
        raise NativeUnavailable("no compiler")

    monkeypatch.setattr(plan_speed, "measure_cpu", refuse)
    assert reason_of(estimate_speed(planned(), machine)).endswith("no compiler")


def test_a_refused_model_is_not_measured(planned: Callable[..., Plan], machine: Machine) -> None:
    refusal = Finding("RAM", "2 GB", "1 GB", False)
    assert with_speed(PreflightReport((refusal,), machine, planned())).speed is None


def test_the_rates_of_a_device_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checks.speed.gpu_rates.COPY_BYTES", 1 << 16)
    monkeypatch.setattr("checks.speed.gpu_rates.WIDTH", 64)
    rates = measure_gpu(torch.float32, "cpu")
    assert rates.is_limit and min(rates.layer_bytes, rates.products) > 0
