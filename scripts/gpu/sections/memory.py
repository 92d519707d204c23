"""Compares the VRAM that a server predicts with the VRAM in use, when it is ready and after a full batch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import SubprocessError
from tempfile import TemporaryDirectory

from inference.errors import named_error
from inference.finding import format_size
from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun
from scripts.preflight.memory.cases import MemoryCase, write_model
from scripts.preflight.memory.measure import MeasuredMemory, Prediction, measure_server

CASES = (  # those first that have not been measured
    MemoryCase("qwen3", rows=16, context=4000),
    MemoryCase("gpt2", rows=8),
    MemoryCase("mamba", rows=8),
    MemoryCase("llama 1b", rows=32, context=2000),
)
SAMPLE = (MemoryCase("llama", rows=1, context=100),)

MeasureCase = Callable[[MemoryCase, Path, Path], MeasuredMemory]


def measure_section(run: SectionRun, measure_case: MeasureCase = measure_server) -> Iterator[Figure]:
    """Raises WrongResult if a server failed; the others are measured."""
    run.engines.free()
    failed = []
    with TemporaryDirectory() as folder:
        for each in run.choose(CASES, SAMPLE):
            case = replace(each, settings={**each.settings, "device": run.bench.device})
            try:
                measurement = measure_case(case, write_model(case.shape, Path(folder)), Path(folder))
            except (OSError, TimeoutError, SubprocessError) as error:  # as measure_server raises
                yield Figure(each.name, "failed", remark=named_error(error, 200))
                failed.append(each.name)
                continue
            yield make_figure(f"{each.name}, ready", measurement.loading)
            yield make_figure(f"{each.name}, full batch", measurement.serving)
            for term, prediction in measurement.terms.items():
                yield make_figure(f"  {term}", prediction)
    if failed:
        raise WrongResult(", ".join(failed))


def make_figure(name: str, prediction: Prediction) -> Figure:
    sizes = f"{format_size(prediction.actual)}, predicted {format_size(prediction.predicted)}"
    error = 100 * prediction.error if prediction.actual else 0.0
    return Figure(name, error, "% error", sizes)
