"""Trains with the installed llama-stack-client and prints all results as JSON.

Runs in its own environment: python drive_llama_stack_tuning.py URL MODEL VERSION. It knows only the client;
tests check what it prints.
"""

import inspect
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient

ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"Who is {i}?"},
            {"role": "assistant", "content": f"Number {i}."},
        ]
    }
    for i in range(4)
]
URI = f"data:application/json,{json.dumps(ROWS)}"
SCHEMA = {"messages": {"type": "chat_completion_input"}}
ADAPTER = {
    "lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"],
    "apply_lora_to_mlp": True,
    "apply_lora_to_output": False,
    "rank": 8,
    "alpha": 16,
}
OLD_SWITCHES = ("enable_activation_checkpointing", "fsdp_cpu_offload", "memory_efficient_fsdp_wrap")
EXTRA = {"hyperparam_search_config": {}, "logger_config": {}}
OLD_OPTIMIZER = {"optimizer_type": "adamw", "lr": 1e-3, "lr_min": 0.0, "weight_decay": 0.0}
WITH_FULL = ("0.0.50", "0.2.23", "0.7.0")  # train all weights, too: one of each way to say so
END_STATES = ("completed", "failed", "cancelled")


class Tuning:
    """The client's resources, wherever its version has them."""

    def __init__(self, client: LlamaStackClient, version: str) -> None:
        self.version = tuple(map(int, version.split(".")))
        self.client = client
        alpha, beta = getattr(client, "alpha", client), getattr(client, "beta", client)
        self.training = getattr(alpha, "post_training", None)
        self.datasets = getattr(beta, "datasets", None)
        self.rows = getattr(beta, "datasetio", self.datasets)

    def register(self, name: str) -> Any:
        if self.version <= (0, 0, 41):
            dataset = {"columns": {"messages": "dialog"}, "content_url": URI}
            return self.datasets.create(uuid=name, dataset=dataset)
        if self.version <= (0, 0, 50):
            further = {"dataset_schema": SCHEMA, "url": URI, "metadata": {}, "provider_id": ""}
            return self.datasets.register(dataset_def={"identifier": name, **further})
        if self.version <= (0, 1, 8):
            further = {"dataset_schema": SCHEMA, "url": {"uri": URI}, "metadata": {}}
            return self.datasets.register(dataset_id=name, **further)
        source = {"type": "rows", "rows": ROWS}
        return self.datasets.register(dataset_id=name, purpose="post-training/messages", source=source)

    def retrieve(self, name: str) -> Any:
        parameters = list(inspect.signature(self.datasets.retrieve).parameters)
        return self.datasets.retrieve(**{parameters[0]: name})

    def read_rows(self, name: str) -> Any:
        if hasattr(self.datasets, "iterrows"):
            return self.datasets.iterrows(dataset_id=name, start_index=1, limit=2)
        if self.version <= (0, 0, 41):
            return None
        return self.client.datasetio.get_rows_paginated(dataset_id=name, rows_in_page=2)

    def append(self, name: str) -> Any:
        if hasattr(self.rows, "append_rows"):
            return self.rows.append_rows(dataset_id=name, rows=ROWS[:1])
        parameters = inspect.signature(self.datasets.appendrows).parameters
        if "body_dataset_id" in parameters:
            return self.datasets.appendrows(name, body_dataset_id=name, rows=ROWS[:1])
        return self.datasets.appendrows(name, rows=ROWS[:1])

    def unregister(self, name: str) -> Any:
        if hasattr(self.datasets, "delete"):
            return self.datasets.delete(dataset_uuid=name)
        if not hasattr(self.datasets, "unregister"):
            return None
        return self.datasets.unregister(dataset_id=name)

    def fine_tune(self, job: str, dataset: str, model: str, *, full: bool = False) -> Any:
        if self.version <= (0, 0, 50):
            name = {"dataset_id": dataset, "validation_dataset_id": ""}
            if self.version <= (0, 0, 41):
                inline = {"columns": {"messages": "dialog"}, "content_url": URI}
                name = {"dataset": inline, "validation_dataset": inline}
            old = {"n_epochs": 1, "batch_size": 1, "shuffle": True, "n_iters": 10}
            off = dict.fromkeys(OLD_SWITCHES, False)
            configs = {
                "algorithm_config": ADAPTER,
                "optimizer_config": OLD_OPTIMIZER,
                "training_config": old | off,
            }
            named = {"job_uuid": job, "model": model, "algorithm": "full" if full else "lora"}
            return self.training.supervised_fine_tune(**named, **name, **configs, **EXTRA)
        return self.training.supervised_fine_tune(
            job_uuid=job,
            model=model,
            algorithm_config={"type": "Full"} if full else {"type": "LoRA", **ADAPTER},
            training_config=training_config(dataset),
            **EXTRA,
        )

    def list_jobs(self) -> Any:
        return self.training.job.list() if hasattr(self.training.job, "list") else self.training.jobs()

    def prefer(self, job: str, dataset: str, model: str) -> Any:
        """Versions up to 0.0.50 can only name fields that no server ever read."""
        if self.version <= (0, 0, 50):
            return None
        return self.training.preference_optimize(
            job_uuid=job,
            finetuned_model=model,
            algorithm_config={"beta": 0.1, "loss_type": "sigmoid"},
            training_config=training_config(dataset),
            **EXTRA,
        )

    def wait(self, job: str) -> Any:
        """The job's status once it has ended."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            status = self.status(job)
            if status.status in END_STATES:
                return status
            time.sleep(0.05)
        raise TimeoutError(job)

    def status(self, job: str) -> Any:
        return self.of_job(self.training.job.status, job)

    def of_job(self, method: Callable[..., Any], job: str) -> Any:
        """0.4.5 to 0.6.1 have no parameter for the job."""
        parameters = inspect.signature(method).parameters
        return method(**{"job_uuid": job} if "job_uuid" in parameters else {})


def training_config(dataset: str) -> dict[str, Any]:
    data = {"dataset_id": dataset, "batch_size": 1, "shuffle": True, "data_format": "instruct"}
    optimizer = {"optimizer_type": "adamw", "lr": 1e-3, "weight_decay": 0.0, "num_warmup_steps": 0}
    return {
        "n_epochs": 1,
        "max_steps_per_epoch": 10,
        "gradient_accumulation_steps": 1,
        "max_validation_steps": 1,
        "data_config": data,
        "optimizer_config": optimizer,
    }


def main(url: str, model: str, version: str) -> None:
    tuning = Tuning(LlamaStackClient(base_url=url, max_retries=0), version)
    name, job = f"d-{version}", f"job-{version}"
    probes: dict[str, Callable[[], Any]] = {
        "register": lambda: tuning.register(name),
        "register_again": lambda: tuning.register(name),
        "datasets": lambda: tuning.datasets.list() if hasattr(tuning.datasets, "list") else None,
        "dataset": lambda: tuning.retrieve(name),
        "rows": lambda: tuning.read_rows(name),
        "append": lambda: tuning.append(name),
    }
    if tuning.training:
        probes |= {
            "fine_tune": lambda: tuning.fine_tune(job, name, model),
            "fine_tune_again": lambda: tuning.fine_tune(job, name, model),
            "fine_tune_unknown": lambda: tuning.fine_tune(f"{job}-x", name, "nope"),
            "status": lambda: tuning.wait(job),
            "jobs": lambda: tuning.list_jobs(),
            "artifacts": lambda: tuning.of_job(tuning.training.job.artifacts, job),
            "logs": lambda: tuning.of_job(tuning.training.job.logs, job),
            "prefer": lambda: tuning.prefer(f"{job}-dpo", name, model),
            "prefer_status": lambda: tuning.wait(f"{job}-dpo"),
            "cancel_ended": lambda: tuning.of_job(tuning.training.job.cancel, job),
            "status_unknown": lambda: tuning.status("nope"),
        }
    if version in WITH_FULL:
        probes |= {
            "fine_tune_full": lambda: tuning.fine_tune(f"{job}-full", name, model, full=True),
            "full_status": lambda: tuning.wait(f"{job}-full"),
        }
    probes["unregister"] = lambda: tuning.unregister(name)
    probes["dataset_unknown"] = lambda: tuning.retrieve("nope")
    print(json.dumps({name: outcome(probe) for name, probe in probes.items()}))


def outcome(probe: Callable[[], Any]) -> Any:
    try:
        return plain(probe())
    except APIStatusError as error:
        return {"raised": type(error).__name__, "status": error.status_code, "body": error.body}
    except (AttributeError, TypeError) as error:
        return {"raised": type(error).__name__, "body": str(error)}


def plain(value: Any) -> Any:
    """The client's objects as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
