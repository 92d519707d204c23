"""Compares the memory that the server predicts with the memory that it uses, for many models.

    python -m scripts.preflight.memory                  all models: writes 14 models, 13 GB altogether
    python -m scripts.preflight.memory llama qwen2      the cases of these models
    python -m scripts.preflight.memory --folder DIR     keep the models in DIR, and reuse those in it

The weights are random and nothing is downloaded. RAM is peak resident memory, mapped file pages included:
first until the model is ready, then until the end of the first batch in which every row has the full context.
Exit code 1 if a prediction is off by more than 5 %, or if a case failed.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from inference.finding import format_size
from scripts.bench.table import format_table
from scripts.preflight.arguments import parse_args
from scripts.preflight.memory.cases import CASES, SHAPES, MemoryCase, write_model
from scripts.preflight.memory.measure import MeasuredMemory, Prediction, measure_server

ALLOWED_ERROR = 0.05
HEADER = ("model", "loading", "actual", "", "serving", "actual", "", "step", "actual", "disk")


def main() -> int:
    args = parse_args(__doc__, SHAPES)
    rows: list[tuple[str, ...]] = [HEADER]
    has_errors = False
    with tempfile.TemporaryDirectory() as scratch:
        for case, measurement in measure_all(args, Path(scratch)):
            if measurement is None:
                has_errors = True
                continue
            row = case_row(case, measurement)
            print("  ".join(row), flush=True)
            rows.append(row)
            has_errors |= max(abs(measurement.loading.error), abs(measurement.serving.error)) > ALLOWED_ERROR
    print("\n" + "\n".join(format_table(rows)))
    return int(has_errors)


def measure_all(
    args: argparse.Namespace, scratch: Path
) -> Iterator[tuple[MemoryCase, MeasuredMemory | None]]:
    """Each case and its measurement, None if it failed. Without --folder, models are removed after use."""
    folder = args.folder or scratch
    for shape in args.models or SHAPES:
        model = write_model(shape, folder)
        for case in CASES:
            if case.shape == shape:
                yield case, try_measure(case, model, scratch)
        if args.folder is None:
            shutil.rmtree(model) if model.is_dir() else model.unlink()


def try_measure(case: MemoryCase, model: Path, scratch: Path) -> MeasuredMemory | None:
    try:
        return measure_server(case, model, scratch)
    except TimeoutError as error:
        print(f"{case.name}: {error}", file=sys.stderr)
        return None


def case_row(case: MemoryCase, measurement: MeasuredMemory) -> tuple[str, ...]:
    """Predicted and actual: memory while loading and while serving, memory of a step, and disk space."""
    step = next(prediction for term, prediction in measurement.terms.items() if term.endswith(" step"))
    disk = measurement.terms["disk"]
    exact = "exact" if disk.predicted == disk.actual else f"{disk.error:+.2%}"
    predictions = (*prediction_cells(measurement.loading), *prediction_cells(measurement.serving))
    return (case.name, *predictions, format_size(step.predicted), format_size(step.actual), exact)


def prediction_cells(prediction: Prediction) -> tuple[str, str, str]:
    return format_size(prediction.predicted), format_size(prediction.actual), f"{prediction.error:+.1%}"


if __name__ == "__main__":
    sys.exit(main())
