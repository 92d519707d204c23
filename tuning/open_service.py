"""Opens the tuning service of a server: what the settings and the served model mean for training."""

import contextlib
import logging
import os
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

from checks.machine import Machine
from checks.machine.limits import available_ram
from checks.memory.plan import Plan
from checks.resources.enough_memory import full_batch_terms
from hub.fetch_dataset import fetch_dataset
from hub.resolve import make_hub
from inference.backend import Backend
from inference.models import Models
from inference.process.memory.rss import resident_memory
from settings.groups import tuning_folder, tuning_processes, tuning_settings
from settings.schema import Settings
from tuning.jobs.model_host import ModelHost
from tuning.service import InUse, TuningService
from tuning.trainer.memory.trainer_memory import free_vram
from tuning.types import TrainingBase

RAM = "RAM"  # in the memory terms of the checks

log = logging.getLogger(__name__)


def open_service(
    settings: Settings,
    models: Models,
    model_folder: Path,
    plan: Plan,
    machine: Machine,
    host: ModelHost | None = None,
    weight_file: Path | None = None,
) -> TuningService | None:
    """The service in TUNING_DIR; None if it is off, or cannot be opened, which is logged.

    model_folder  of the served model, or its GGUF file; plan, machine: with which it was loaded
    host          what serves whole models that were trained; None: nothing does
    weight_file   where the served weights are kept, packed; None: nowhere
    """
    backend = models.own.backend
    folder = tuning_folder(settings)
    if folder is None:
        return None
    limits = tuning_settings(settings)
    base = training_base(settings, backend, model_folder, plan, machine, weight_file)
    try:
        service = TuningService(
            folder,
            models,
            base,
            limits,
            free_bytes=partial(free_bytes, serving_ram(plan, machine), plan.device, base.num_processes),
            fetch_dataset=partial(
                fetch_dataset,
                make_hub(settings),
                max_bytes=limits.max_file_bytes,
                offline=settings.offline,
            ),
            host=host,
        )
    except (OSError, sqlite3.Error, InUse) as error:
        log.warning("TUNING_DIR=%s cannot be opened, so there is no tuning: %s", folder, error)
        return None
    log.info("files, fine-tuning jobs and their models are in %s", folder)
    return service


def serving_ram(plan: Plan, machine: Machine) -> int:
    """Bytes of RAM that the server needs for a full batch."""
    terms = full_batch_terms(plan, machine)
    return terms[RAM].serving if RAM in terms else 0


def with_free_memory(plan: Plan, machine: Machine) -> Machine:
    """The machine with the memory that is free now beside what the served model takes."""
    gpus = tuple(replace(gpu, free=free_vram()) for gpu in machine.gpus[:1]) + machine.gpus[1:]
    ram = free_bytes(serving_ram(plan, machine), "cpu")
    return replace(machine, ram=ram, gpus=gpus)


def free_bytes(serving_bytes: int, device: str, num_processes: int = 1) -> int:
    """Memory for each of a trainer's processes.

    That is the free VRAM of its GPU, or its share of the free RAM without what the server still lacks of a
    full batch.
    """
    if device == "cuda":
        return min(free_vram(gpu) for gpu in range(num_processes))
    reserved = max(0, serving_bytes - resident_memory().total)
    return max(0, available_ram().remaining - reserved) // num_processes


def training_base(
    settings: Settings,
    backend: Backend,
    model_folder: Path,
    plan: Plan,
    machine: Machine,
    weight_file: Path | None = None,
) -> TrainingBase:
    """Paths are absolute: a job may outlive this server and its working directory."""
    assert plan.model_size is not None
    info = backend.info()
    return TrainingBase(
        names=(info.id, *settings.served_names),
        model_folder=absolute(str(model_folder)),
        context=info.context or 0,
        dtype=plan.model_size.dtype,
        device=plan.device,
        num_processes=tuning_processes(settings, len(machine.gpus) if plan.device == "cuda" else 0),
        quantize=settings.quantize,
        imatrix=absolute(settings.imatrix),
        chat_template=absolute(settings.chat_template),
        tokenizer_config_path=absolute(settings.tokenizer_config_path),
        trust_remote_code=settings.trust_remote_code,
        threads=max(1, (settings.threads or os.cpu_count() or 1) - 1),
        max_lora_rank=settings.max_lora_rank,
        rope_scaling=settings.rope_scaling,
        rope_factor=settings.rope_factor,
        allow_pickle=settings.allow_pickle,
        weight_file=str(weight_file.resolve()) if weight_file else "",
    )


def absolute(path: str) -> str:
    """The path from the root; a text that is no path of anything stays as it is."""
    with contextlib.suppress(OSError, ValueError):  # a template can be longer than a path may be
        if path and Path(path).expanduser().exists():
            return str(Path(path).expanduser().absolute())
    return path
