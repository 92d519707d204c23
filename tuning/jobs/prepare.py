"""The program that validates the files of a job and chooses its hyperparameters: run_module.py … FOLDER.

A process of its own: encoding many rows would slow the server. Reads FOLDER/draft.json and writes
FOLDER/prepared.json.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, ServerError, named_error
from inference.finding import Finding
from inference.model.load.formats import is_gguf, read_config, read_tokenizer
from inference.model.load.tokenizer import read_chat_template, replace_settings
from inference.process.memory.memory_shortage import is_memory_shortage
from inference.text.chat_template import ChatTemplate
from tuning.data.encoder import Encoder
from tuning.data.examples import Dataset, InvalidDataset
from tuning.data.inspection import inspect
from tuning.job_files import DRAFT_FILE, PREPARED_FILE, read_value, write_value
from tuning.jobs.draft import Draft, make_spec
from tuning.jobs.hyperparameters import (
    REFERENCE_HIDDEN_SIZE,
    ModelSizes,
    chosen_values,
    resolve_hyperparameters,
)
from tuning.jobs.memory_check import check_job_memory
from tuning.jobs.prepared_job import PreparedJob
from tuning.trainer.job.disk_plan import check_disk, plan_disk
from tuning.trainer.job.schedule import count_steps
from tuning.trainer.job.step_time import estimate_seconds
from tuning.trainer.job.training_data import training_data
from tuning.trainer.memory.mapped_weights import has_served_weights
from tuning.trainer.memory.memory_plan import TrainingPlan, largest_pass, plan_memory
from tuning.trainer.model.base_model import not_a_decoder
from tuning.types import OWN_WEIGHTS, Hyperparameters, JobError, JobSpec, TrainingBase

OUT_OF_MEMORY = "the validation of the files ran out of memory: free memory, or use a file with fewer rows"

log = logging.getLogger(__name__)


class InvalidFile(Exception):
    """A dataset of the job is invalid. field: training_file or validation_file."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0])
    draft = read_value(folder / DRAFT_FILE, Draft)
    write_value(folder / PREPARED_FILE, prepare(draft))
    return 0


def prepare(draft: Draft) -> PreparedJob:
    """Never raises a ServerError, nor for want of memory: it is in the result."""
    try:
        return validate(draft)
    except InvalidFile as error:
        return PreparedJob(error=JobError(f"invalid_{error.field}", error.message, error.field))
    except ServerError as error:
        param = getattr(error, "field", None) or None
        return PreparedJob(error=JobError("invalid_request", error.message, param))
    except Exception as error:
        if not is_memory_shortage(error):
            raise
        return PreparedJob(error=JobError("out_of_memory", OUT_OF_MEMORY, "training_file"))


def validate(draft: Draft) -> PreparedJob:
    """Raises InvalidFile, and ServerError if the model cannot be read, or cannot be trained so."""
    model_config = read_config(Path(draft.base.model_folder), draft.base.trust_remote_code)
    config = model_config.to_dict()
    check_trainable(config, draft)
    encoder = open_encoder(draft)
    dataset = encode(encoder, draft, draft.training_file, "training_file")
    validation = None
    if draft.validation_file:
        validation = encode(encoder, draft, draft.validation_file, "validation_file")
    hyperparameters = resolve_hyperparameters(
        draft.hyperparameters, draft.method, len(dataset), model_sizes(model_config, draft.base)
    )

    def make_plan(values: Hyperparameters) -> TrainingPlan:
        spec = with_weights(make_spec(draft, values), draft.base)
        return plan_memory(config, spec, largest_pass(dataset, spec))

    plan, unplanned = plan_or_explain(make_plan, hyperparameters)
    memory = check_job_memory(hyperparameters, make_plan, draft.free_bytes) if plan else None
    inspection = inspect(dataset, encoder, draft.num_shown_rows)
    spec = with_weights(make_spec(draft, hyperparameters), draft.base)
    disk = check_disk(plan_disk(config, spec), Path(draft.training_file).parent)
    shortage = next((finding for finding in (memory, disk) if finding and not finding.ok), None)
    return PreparedJob(
        spec=spec,
        num_examples=inspection.num_rows,
        num_cut=inspection.num_cut,
        num_tokens=inspection.num_tokens,
        num_trained_tokens=inspection.num_trained_tokens,
        max_row_tokens=inspection.max_row_tokens,
        num_total_steps=count_steps(hyperparameters, len(dataset)),
        estimated_s=estimate(config, spec, dataset, validation)
        if shortage is None and draft.num_shown_rows
        else None,
        messages=(*inspection.events, *unplanned),
        memory=memory,
        memory_plan=plan.terms if plan else {},
        shown_rows=inspection.rows,
        error=shortage_error(shortage) if shortage else None,
    )


def plan_or_explain(
    make_plan: Callable[[Hyperparameters], TrainingPlan], hyperparameters: Hyperparameters
) -> tuple[TrainingPlan | None, tuple[str, ...]]:
    """The memory plan; None, with a message, for an architecture without one: it is trained all the same."""
    try:
        return make_plan(hyperparameters), ()
    except ServerError:
        raise
    except Exception as error:  # an architecture's own failure
        if is_memory_shortage(error):
            raise
        return None, (f"The memory of this training is not known: {named_error(error)}",)


def with_weights(spec: JobSpec, base: TrainingBase) -> JobSpec:
    """The spec of a job that maps the served weights only where it trains over the same."""
    return spec if has_served_weights(base, spec.hyperparameters) else replace(spec, **OWN_WEIGHTS)


def estimate(
    config: dict[str, Any], spec: JobSpec, dataset: Dataset, validation: Dataset | None
) -> float | None:
    """Seconds of the training; None for an architecture that has no model of one layer."""
    data, valid = (
        training_data(each, spec.method, spec.hyperparameters) if each else None
        for each in (dataset, validation)
    )
    assert data is not None
    try:
        return estimate_seconds(config, spec, data, valid)
    except Exception as error:  # an architecture's own failure
        log.warning("no estimate of the time: %s", named_error(error))
        return None


def shortage_error(finding: Finding) -> JobError:
    """The error of a job for which the memory or the disk is too small."""
    resource = finding.name.removeprefix("training ")
    where = "beside serving there is" if resource == "memory" else "TUNING_DIR has"
    message = f"the training needs {finding.need} of {resource}; {where} {finding.have}: {finding.fix}"
    return JobError(f"insufficient_{resource}", message)


def check_trainable(config: dict[str, Any], draft: Draft) -> None:
    """Raises BadRequest for a model with an encoder, and for quantized weights that are all to be trained."""
    if config.get("is_encoder_decoder"):
        raise not_a_decoder(config.get("model_type"))
    is_full = draft.hyperparameters.get("finetuning_type") == "full"
    is_file = is_gguf(Path(draft.base.model_folder))
    if is_full and (is_file or config.get("quantization_config")):
        kind = "a GGUF file" if is_file else "quantized in its files"
        rule = f"must be lora: the model is {kind}, and quantized weights cannot be trained"
        raise BadRequest("finetuning_type", rule, "full")


def open_encoder(draft: Draft) -> Encoder:
    """The encoder of the served model's tokenizer and chat template."""
    base, values = draft.base, chosen_values(draft.hyperparameters)
    tokenizer = read_tokenizer(Path(base.model_folder), base.trust_remote_code)
    if base.tokenizer_config_path:
        replace_settings(tokenizer, Path(base.tokenizer_config_path))
    if base.chat_template:
        tokenizer.chat_template = read_chat_template(base.chat_template)
    return Encoder(
        tokenizer,
        ChatTemplate(tokenizer),
        max_length=min(values.get("max_length") or base.context, base.context),
        train_on_input=values.get("train_on_input", False),
    )


def encode(encoder: Encoder, draft: Draft, path: str, field: str) -> Dataset:
    try:
        return encoder.encode(Path(path), draft.method)
    except InvalidDataset as error:
        raise InvalidFile(field, error.message) from error


def model_sizes(config: Any, base: TrainingBase) -> ModelSizes:
    """config: of transformers, which has the width under one name, whatever it is called in config.json."""
    width = getattr(config.get_text_config(decoder=True), "hidden_size", None)  # BLT has several
    return ModelSizes(width or REFERENCE_HIDDEN_SIZE, config.model_type, base.context)
