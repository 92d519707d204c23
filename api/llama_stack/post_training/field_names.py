"""The fields of a post-training request by the names that the job queue has for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from inference.errors import BadRequest
from tuning.jobs.hyperparameters import TARGETS

ALGORITHM, TRAINING = "algorithm_config", "training_config"
DATA, OPTIMIZER = f"{TRAINING}.data_config", f"{TRAINING}.optimizer_config"
FIELD_NAMES = {
    "finetuning_type": f"{ALGORITHM}.type",
    "quantize_base": f"{ALGORITHM}.quantize_base",
    "use_dora": f"{ALGORITHM}.use_dora",
    "lora_rank": f"{ALGORITHM}.rank",
    "lora_alpha": f"{ALGORITHM}.alpha",
    TARGETS: f"{ALGORITHM}.lora_attn_modules",
    "beta": f"{ALGORITHM}.beta",
    "n_epochs": f"{TRAINING}.n_epochs",
    "max_steps": f"{TRAINING}.max_steps_per_epoch",
    "gradient_accumulation_steps": f"{TRAINING}.gradient_accumulation_steps",
    "batch_size": f"{DATA}.batch_size",
    "optimizer": f"{OPTIMIZER}.optimizer_type",
    "learning_rate": f"{OPTIMIZER}.lr",
    "weight_decay": f"{OPTIMIZER}.weight_decay",
    "warmup_steps": f"{OPTIMIZER}.num_warmup_steps",
    "training_file": f"{DATA}.dataset_id",
    "validation_file": f"{DATA}.validation_dataset_id",
    "fine_tuning_job_id": "job_uuid",
}


@contextmanager
def named_as_sent() -> Iterator[None]:
    """Raise a BadRequest of the job queue with the name that the field has in the request."""
    try:
        yield
    except BadRequest as error:
        if error.field not in FIELD_NAMES:
            raise
        raise BadRequest(FIELD_NAMES[error.field], error.message.removeprefix(f"{error.field} ")) from None
