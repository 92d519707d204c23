"""The time that a job takes, estimated before it starts.

Two models of the job's architecture, with one layer and with two, train on some of its rows; each other layer
is taken to cost what the second one does. Knows the trainer's verbs; needs no weights.
"""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoConfig

from hub.model_config import LAYER_COUNT_KEYS
from inference.model.load.architecture import auto_class_of
from inference.model.load.device_dtype import default_context, resolve_device
from inference.model.load.meta_model import build_on_meta, count_parameters
from tuning.trainer.datum import Datum
from tuning.trainer.job.job import create_run
from tuning.trainer.job.pass_cost import make_pass_cost
from tuning.trainer.job.rehearsal import count_per_step
from tuning.trainer.job.remaining_time import make_remaining_time
from tuning.trainer.job.schedule import Schedule, make_schedule
from tuning.trainer.job.training_data import TrainingData
from tuning.trainer.job.workload import make_workload
from tuning.trainer.micro_batches import make_layout
from tuning.trainer.model.base_model import (
    BaseModel,
    prepare_frozen,
    qlora_scheme,
    split_model,
    training_dtype,
)
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer
from tuning.types import JobSpec

RUN_ID = "timed"
NUM_STEPS = 3  # of which the fastest counts: the first one sets up buffers and kernels
MAX_SAMPLE_TOKENS = 1024  # of a timed step

Clock = Callable[[], float]


def estimate_seconds(
    raw_config: Mapping[str, Any],
    spec: JobSpec,
    training_data: TrainingData,
    validation_data: TrainingData | None,
    clock: Clock = time.monotonic,
) -> float:
    """Seconds of a job on the model of a config.json, on this machine as it is now.

    Raises whatever the architecture raises.
    """
    schedule = make_schedule(len(training_data), spec.hyperparameters, spec.seed)
    sample = sample_data(training_data, schedule)
    with using_threads(spec.threads):
        one_layer_s, two_layers_s = (
            time_step(shallow_base(raw_config, num_layers, spec), spec, training_data, sample, clock)
            for num_layers in (1, 2)
        )
    step_s = one_layer_s + max(0.0, two_layers_s - one_layer_s) * (count_layers(raw_config) - 1)
    pass_cost = make_pass_cost(build_on_meta(raw_config), spec.hyperparameters, training_data.group_size)
    remaining_time = make_remaining_time(spec, pass_cost, validation_data)
    # A text that the model rehearses is taken to be as long as a row.
    rehearsed = count_per_step(spec.hyperparameters) / schedule.rows_per_step
    # Processes on GPUs take as long for their shares as one does; those on the CPU share its cores.
    num_devices = spec.num_processes if resolve_device(spec.device) == "cuda" else 1
    cost = num_devices * pass_cost.of(sample, training_data.group_size)
    remaining_time.add_step(cost, (1 + rehearsed) * step_s)
    has_evaluations = validation_data is not None
    workload = make_workload(spec, schedule, training_data, pass_cost, has_evaluations=has_evaluations)
    return remaining_time.estimate(workload.after(0))


def sample_data(training_data: TrainingData, schedule: Schedule) -> list[Datum]:
    """The data of the first step's first rows; of one row at least."""
    size, sample = training_data.group_size, list[Datum]()
    for row in schedule.rows_of(0):
        data = training_data.data[row * size : (row + 1) * size]
        if sample and sum(map(len, (*sample, *data))) > MAX_SAMPLE_TOKENS:
            break
        sample += data
    return sample


@contextmanager
def using_threads(num_threads: int) -> Iterator[None]:
    threads_before = torch.get_num_threads()
    torch.set_num_threads(max(1, num_threads))
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)


def shallow_base(raw_config: Mapping[str, Any], num_layers: int, spec: JobSpec) -> BaseModel:
    """A base of random weights with so many layers, as the trainer would load it."""
    device = resolve_device(spec.device)
    dtype = training_dtype(spec.dtype, device, count_parameters(build_on_meta(raw_config)))
    config = AutoConfig.for_model(**with_layers(raw_config, num_layers))
    with warnings.catch_warnings(action="ignore"):
        model = auto_class_of(config).from_config(config, dtype=getattr(torch, dtype)).eval().to(device)
    text_config = config.get_text_config()
    prepare_frozen(model, device, qlora_scheme(spec.hyperparameters.quantize_base, device))
    return split_model(model, None, text_config.vocab_size, default_context(config))


def with_layers(raw_config: Mapping[str, Any], num_layers: int) -> dict[str, Any]:
    """The config of the model's first layers."""
    config = copy.deepcopy(dict(raw_config))
    text_config = config.get("text_config") or config
    text_config[layer_count_key(text_config)] = num_layers
    if text_config.get("layer_types"):
        text_config["layer_types"] = text_config["layer_types"][:num_layers]
    return config


def count_layers(raw_config: Mapping[str, Any]) -> int:
    text_config = raw_config.get("text_config") or raw_config
    return int(text_config[layer_count_key(text_config)])


def layer_count_key(text_config: Mapping[str, Any]) -> str:
    """The key with the number of layers. Raises KeyError for an architecture without one."""
    if key := next((each for each in LAYER_COUNT_KEYS if each in text_config), ""):
        return key
    raise KeyError(f"none of {', '.join(LAYER_COUNT_KEYS)}")


def time_step(
    base: BaseModel, spec: JobSpec, training_data: TrainingData, sample: Sequence[Datum], clock: Clock
) -> float:
    """Seconds of the fastest of a few steps. Other losses take the time of cross-entropy."""
    hyperparameters = spec.hyperparameters
    trainer = Trainer(
        base,
        layout=make_layout(hyperparameters, training_data.group_size),
        checkpointing=hyperparameters.activation_checkpointing,
    )
    create_run(trainer, RUN_ID, spec)
    times = []
    for _ in range(NUM_STEPS):
        began = clock()
        trainer.forward_backward(RUN_ID, sample, "cross_entropy")
        trainer.optim_step(RUN_ID, AdamParams(learning_rate=0.0))
        times.append(clock() - began)
    return min(times)
