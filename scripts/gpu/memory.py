"""Compares the VRAM that a server predicts with the VRAM in use, when it is ready and after a full batch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from inference.finding import format_size
from scripts.gpu.section import ReportRow, SectionOptions, WrongResult
from scripts.preflight.memory.cases import MemoryCase, write_model
from scripts.preflight.memory.measure import MeasuredMemory, Prediction, measure_server

CASES = (
    MemoryCase("llama 1b", rows=32, context=2000),
    MemoryCase("qwen3", rows=16, context=4000),
    MemoryCase("gpt2", rows=8),
    MemoryCase("mamba", rows=8),
)
SAMPLE = (MemoryCase("llama"),)
ALLOWED_ERROR = {"cuda": 0.03, "cpu": 0.05}

MeasureCase = Callable[[MemoryCase, Path, Path], MeasuredMemory]


def measure_section(
    options: SectionOptions, measure_case: MeasureCase = measure_server
) -> Iterator[ReportRow]:
    """Raises WrongResult after the last figure if a prediction is off by more than ALLOWED_ERROR."""
    device, largest_error = options.bench.device, 0.0
    with TemporaryDirectory() as folder:
        for each in SAMPLE if options.sample else CASES:
            case = replace(each, settings={**each.settings, "device": device})
            measurement = measure_case(case, write_model(case.shape, Path(folder)), Path(folder))
            yield make_row(f"{each.name}, ready", measurement.loading)
            yield make_row(f"{each.name}, full batch", measurement.serving)
            largest_error = max(largest_error, abs(measurement.loading.error), abs(measurement.serving.error))
    if largest_error > ALLOWED_ERROR[device]:
        raise WrongResult(f"the predicted memory is off by {largest_error:.1%}")


def make_row(name: str, prediction: Prediction) -> ReportRow:
    return (
        name,
        format_size(prediction.actual),
        f"predicted {format_size(prediction.predicted)}, {prediction.error:+.1%}",
    )
