"""VRAM as a real server predicts it before the weights are there, and as the driver counts it: when the model
is ready, and behind a full batch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from checks.finding import size
from scripts.gpu.part import Asked, Line, Wrong
from scripts.memory.cases import Case, written
from scripts.memory.measured import Measured, Pair, measured

CASES = (
    Case("llama 1b", rows=32, context=2000),
    Case("qwen3", rows=16, context=4000),
    Case("gpt2", rows=8),
    Case("mamba", rows=8),
)
SAMPLE = (Case("llama"),)
ALLOWED = {"cuda": 0.03, "cpu": 0.05}

Measuring = Callable[[Case, Path, Path], Measured]


def lines(asked: Asked, measure: Measuring = measured) -> Iterator[Line]:
    """Raises Wrong behind the last line where a prediction was off by more than is ALLOWED."""
    device, off = asked.terms.device, 0.0
    with TemporaryDirectory() as folder:
        for each in SAMPLE if asked.sample else CASES:
            case = replace(each, settings={**each.settings, "device": device})
            found = measure(case, written(case.shape, Path(folder)), Path(folder))
            yield line(f"{each.name}, ready", found.loading)
            yield line(f"{each.name}, full batch", found.serving)
            off = max(off, abs(found.loading.error), abs(found.serving.error))
    if off > ALLOWED[device]:
        raise Wrong(f"memory was predicted wrongly, by {off:.1%}")


def line(name: str, pair: Pair) -> Line:
    return name, size(pair.actual), f"predicted {size(pair.predicted)}, {pair.error:+.1%}"
