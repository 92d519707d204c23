"""Jobs that run in the process of a test."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from settings.groups import ModelSettings
from tests.tuning.trainer.conftest import VOCAB
from tuning.data.examples import Dataset, Example, PreferencePair, RatedExample
from tuning.job_files import PROGRESS_FILE
from tuning.trainer.job.job import TrainingJob
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.job.training_data import training_data
from tuning.trainer.micro_batches import make_layout
from tuning.trainer.model.base_model import BaseModel, load_base
from tuning.trainer.trainer import Trainer
from tuning.types import JobSpec, Method

Line = dict[str, Any]
PROMPT_TOKENS = 3


def example(random: Random) -> Example:
    length = random.randrange(6, 12)
    weights = [0.0] * PROMPT_TOKENS + [1.0] * (length - PROMPT_TOKENS)
    return Example(tuple(random.randrange(VOCAB) for _ in range(length)), tuple(weights), 1)


def dataset(method: Method, num_rows: int = 6, seed: int = 0) -> Dataset:
    random = Random(seed)
    if method == "supervised":
        return Dataset(row_form="chat", examples=[example(random) for _ in range(num_rows)])
    if method == "kto":
        rated = [RatedExample(example(random), bool(row % 2)) for row in range(num_rows)]
        return Dataset(row_form="preference", rated_examples=rated)
    pairs = []
    for _ in range(num_rows):
        chosen, rejected = example(random), example(random)
        same_prompt = chosen.token_ids[:PROMPT_TOKENS] + rejected.token_ids[PROMPT_TOKENS:]
        pairs.append(PreferencePair(chosen, Example(same_prompt, rejected.weights, 1), 1))
    return Dataset(row_form="preference", pairs=pairs)


def run_job(
    folder: Path,
    model_folder: Path,
    spec: JobSpec,
    validation: Dataset | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    seed: int = 0,
) -> list[Line]:
    """Run or resume the job in `folder` with a newly loaded model; returns the lines that it wrote."""
    base = load_base(model_folder, ModelSettings(dtype="float32", device="cpu"))
    return run_loaded(folder, base, spec, dataset(spec.method, seed=seed), validation, is_stopped)


def run_loaded(
    folder: Path,
    base: BaseModel,
    spec: JobSpec,
    rows: Dataset,
    validation: Dataset | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Line]:
    """As run_job, with a model that is loaded."""
    folder.mkdir(exist_ok=True)
    path = folder / PROGRESS_FILE
    num_lines = len(path.read_text().splitlines()) if path.exists() else 0
    values = spec.hyperparameters
    data = training_data(rows, spec.method, values)
    valid = training_data(validation, spec.method, values) if validation else None
    layout = make_layout(values, data.group_size)
    trainer = Trainer(base, layout=layout, checkpointing=values.activation_checkpointing)
    try:
        TrainingJob(folder, spec, trainer, data, valid, ProgressLog(folder), is_stopped).run()
    finally:
        lines = path.read_text().splitlines()[num_lines:]
    return [json.loads(line) for line in lines]


def of_type(lines: Sequence[Line], name: str) -> list[Line]:
    return [line for line in lines if line["type"] == name]


def losses(lines: Sequence[Line]) -> dict[int, float]:
    return {line["step"]: line["train_loss"] for line in of_type(lines, "step")}


class StopAfter:
    """Asks the job to pause once it has been asked so often."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self) -> bool:
        self.count -= 1
        return self.count < 0
