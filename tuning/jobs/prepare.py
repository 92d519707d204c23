"""The program that validates the files of a job and chooses its hyperparameters: python -m … FOLDER.

A process of its own: reading many rows would slow the server. Reads FOLDER/draft.json and writes
FOLDER/prepared.json.
"""

import json
import math
import sys
from pathlib import Path

from inference.errors import ServerError
from tuning.jobs.draft import DRAFT_FILE, PREPARED_FILE, Draft, PreparedJob, read_value, write_value
from tuning.jobs.hyperparameters import ModelSizes, resolve_hyperparameters
from tuning.jsonl import InvalidLine, count_rows
from tuning.types import Hyperparameters, JobError, JobSpec


def main() -> None:
    folder = Path(sys.argv[1])
    draft = read_value(folder / DRAFT_FILE, Draft)
    write_value(folder / PREPARED_FILE, prepare(draft))


def prepare(draft: Draft) -> PreparedJob:
    """Never raises a ServerError: it is in the result."""
    try:
        return validate(draft)
    except InvalidLine as error:
        return PreparedJob(
            error=JobError(code=f"invalid_{error.field}", message=error.message, param=error.field)
        )
    except ServerError as error:
        param = getattr(error, "field", None) or None
        return PreparedJob(error=JobError(code="invalid_request", message=error.message, param=param))


def validate(draft: Draft) -> PreparedJob:
    num_examples = count_rows(Path(draft.training_file), "training_file")
    if draft.validation_file:
        count_rows(Path(draft.validation_file), "validation_file")
    sizes = model_sizes(Path(draft.base.model_folder), draft.base.context)
    hyperparameters = resolve_hyperparameters(draft.hyperparameters, draft.method, num_examples, sizes)
    spec = make_spec(draft, hyperparameters)
    return PreparedJob(
        spec=spec,
        num_examples=num_examples,
        num_total_steps=count_steps(hyperparameters, num_examples),
    )


def make_spec(draft: Draft, hyperparameters: Hyperparameters) -> JobSpec:
    base = draft.base
    return JobSpec(
        job_id=draft.job_id,
        method=draft.method,
        hyperparameters=hyperparameters,
        seed=draft.seed,
        model_folder=base.model_folder,
        dtype=base.dtype,
        chat_template=base.chat_template,
        tokenizer_config_path=base.tokenizer_config_path,
        trust_remote_code=base.trust_remote_code,
        initial_adapter=draft.initial_adapter,
        training_file=draft.training_file,
        validation_file=draft.validation_file,
        threads=base.threads,
    )


def count_steps(hyperparameters: Hyperparameters, num_examples: int) -> int:
    rows_of_step = hyperparameters.batch_size * hyperparameters.gradient_accumulation_steps
    num_steps = hyperparameters.n_epochs * math.ceil(num_examples / rows_of_step)
    return min(num_steps, hyperparameters.max_steps or num_steps)


def model_sizes(model_folder: Path, context: int) -> ModelSizes:
    config = json.loads((model_folder / "config.json").read_text())
    text_config = config.get("text_config") or config
    return ModelSizes(int(text_config["hidden_size"]), str(text_config.get("model_type", "")), context)


if __name__ == "__main__":
    main()
