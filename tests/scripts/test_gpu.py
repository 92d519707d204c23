"""The GPU report on a machine without a GPU: its sections run, its arithmetic is right."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.bench.models import build_model, num_parameters
from scripts.bench.options import BenchOptions
from scripts.gpu import correct, memory, overlap, profile, roofline
from scripts.gpu.section import SectionOptions, WrongResult
from scripts.preflight.memory.cases import MemoryCase
from scripts.preflight.memory.measure import MeasuredMemory, Prediction

REQUEST = SectionOptions(
    BenchOptions(model="tiny", dtype="float32", device="cpu", threads=1), rounds=1, sample=True
)


def kernel(start: int, end: int) -> SimpleNamespace:
    return SimpleNamespace(time_range=SimpleNamespace(start=start, end=end))


def test_concurrent_kernels_count_once() -> None:
    assert profile.busy_us([kernel(10, 30), kernel(0, 5), kernel(20, 25), kernel(28, 40)]) == 35


def test_a_token_reads_every_weight_except_embeddings_of_other_tokens() -> None:
    model = build_model("tiny", "float32", "cpu")
    assert roofline.weight_bytes_read(model) == 4 * (num_parameters("tiny") - 512 * 32)
    tied = build_model("77m", "bfloat16", "meta")
    assert roofline.weight_bytes_read(tied) == 2 * num_parameters("77m")


@pytest.mark.slow
def test_a_wrong_memory_prediction_is_reported_after_its_lines() -> None:
    def measure(case: MemoryCase, model: Path, scratch: Path) -> MeasuredMemory:
        assert case.settings["device"] == "cpu" and (model / "model.safetensors").exists()
        return MeasuredMemory(Prediction(104, 100), Prediction(98, 100), {})

    lines = []
    with pytest.raises(WrongResult, match=r"20\.0%"):
        for line in memory.measure_section(
            REQUEST, lambda *args: replace(measure(*args), serving=Prediction(120, 100))
        ):
            lines.append(line)
    assert [line[1:] for line in lines][1] == ("100 bytes", "predicted 120 bytes, +20.0%")
    assert len(list(memory.measure_section(REQUEST, measure))) == 2


@pytest.mark.slow
def test_the_share_of_the_roofline_is_reported_without_a_gpu() -> None:
    report = {line[0]: line[1] for line in roofline.measure_section(REQUEST)}
    assert 0 < float(report["share of roofline"].removesuffix(" %")) < 100


@pytest.mark.slow
def test_overlapped_steps_are_timed_against_sequential_ones_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlap, "ROWS", (2,))
    monkeypatch.setattr(overlap, "NUM_TIMED_STEPS", 4)
    report = {line[0]: line[1] for line in overlap.measure_section(REQUEST)}
    measured = {"step, 2 rows, sequential", "step, 2 rows, overlapped", "2 rows, ratio"}
    assert report.keys() in (measured, {"overlapped steps"})


def test_the_files_of_the_suite_exist() -> None:
    assert all((correct.ROOT / path).exists() for path in correct.SUITE)
