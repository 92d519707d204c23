"""The metrics of a job as CSV, with the columns of OpenAI's result files."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

# Column of the CSV -> figure in the trainer's progress file.
COLUMNS = {
    "step": "step",
    "train_loss": "train_loss",
    "train_accuracy": "train_mean_token_accuracy",
    "valid_loss": "valid_loss",
    "valid_mean_token_accuracy": "valid_mean_token_accuracy",
}


def metrics_csv(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """A row for each step. Figures of a step that a resumed trainer has repeated are the later ones."""
    figures: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line.get("type") in ("step", "evaluation"):
            figures.setdefault(int(line["step"]), {}).update(line)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([row.get(name, "") for name in COLUMNS.values()] for _, row in sorted(figures.items()))
    return text.getvalue().encode()
