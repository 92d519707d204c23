"""The trainer's process: run_module.py tuning.trainer.job.child FOLDER

Reads FOLDER/job.json, trains, and writes FOLDER/progress.jsonl. Started with the folder of a job that was
paused or killed, it goes on from the state that the job saved last. SIGTERM pauses it after the running step.
Exit code 0 after the job or a pause, 1 after a failure, which the progress explains.
"""

import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from inference.errors import named_error
from inference.text.chat_template import ChatTemplate
from tuning.data.encoder import Encoder
from tuning.data.examples import Dataset
from tuning.job_files import SPEC_FILE, read_value
from tuning.trainer.data_parallel.trainer import open_trainer
from tuning.trainer.job.failures import to_failure
from tuning.trainer.job.job import TrainingJob
from tuning.trainer.job.metric_writers import MetricWriters
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.job.training_data import TrainingData, training_data
from tuning.trainer.memory.memory_plan import largest_pass, plan_memory
from tuning.trainer.micro_batches import make_layout
from tuning.trainer.model.base_model import BaseModel, qlora_scheme
from tuning.trainer.model.open_base import open_base
from tuning.types import Hyperparameters, JobSpec

log = logging.getLogger(__name__)


class StopRequest:
    """Whether the process has been asked to pause."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, *_: Any) -> None:
        self.is_set = True


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0])
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    stop_request = StopRequest()
    signal.signal(signal.SIGTERM, stop_request)
    progress = ProgressLog(folder)
    try:
        run_job(folder, read_value(folder / SPEC_FILE, JobSpec), progress, stop_request)
    except Exception as error:  # the end of the process: its last words tell the user why
        failure = to_failure(error)
        log.exception("failed code=%s", failure.code)
        progress.write("failed", code=failure.code, message=failure.message, param=failure.param)
        return 1
    return 0


def run_job(folder: Path, spec: JobSpec, progress: ProgressLog, stop_request: StopRequest) -> None:
    """Load, encode and train. Raises whatever ends the job."""
    progress.message("Loading the model")
    hyperparameters = spec.hyperparameters
    quantize = qlora_scheme(hyperparameters.quantize_base, spec.device)
    base = open_base(spec, quantize)
    encoder = make_encoder(base, hyperparameters)
    dataset = encoder.encode(Path(spec.training_file), spec.method)
    for text in dataset.events:
        progress.message(text)
    data = training_data(dataset, spec.method, hyperparameters)
    layout = make_layout(hyperparameters, data.group_size)
    checkpointing = hyperparameters.activation_checkpointing
    trainer = open_trainer(base, spec, quantize, layout=layout, checkpointing=checkpointing)
    job = TrainingJob(
        folder,
        spec,
        trainer,
        training_data=data,
        validation_data=validation_data(encoder, spec),
        progress=progress,
        is_stopped=lambda: stop_request.is_set,
    )
    with closing(MetricWriters(folder, spec)) as metric_writers:
        progress.copy_metrics(metric_writers.write)
        job.run(num_trained_tokens=dataset.num_trained_tokens, plan=plan_terms(base, spec, dataset))


def plan_terms(base: BaseModel, spec: JobSpec, dataset: Dataset) -> dict[str, int]:
    """The memory plan by term; empty for an architecture that cannot be planned: it trains all the same."""
    try:
        return plan_memory(base.causal.config.to_dict(), spec, largest_pass(dataset, spec)).terms
    except Exception as error:  # an architecture's own failure
        log.warning("no memory plan: %s", named_error(error))
        return {}


def make_encoder(base: BaseModel, hyperparameters: Hyperparameters) -> Encoder:
    return Encoder(
        base.tokenizer,
        ChatTemplate(base.tokenizer),
        max_length=min(hyperparameters.max_length or base.context, base.context),
        train_on_input=hyperparameters.train_on_input,
    )


def validation_data(encoder: Encoder, spec: JobSpec) -> TrainingData | None:
    if not spec.validation_file:
        return None
    dataset = encoder.encode(Path(spec.validation_file), spec.method)
    return training_data(dataset, spec.method, spec.hyperparameters)
