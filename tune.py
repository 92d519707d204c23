"""Fine-tune the served model: python3 tune.py data.jsonl. The running server trains; this program watches.

An ordinary HTTP client of OpenAI's files and jobs. Finds the server by the settings that the server reads,
as use.py does.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
import urllib3

from inference.process.closed_output import exit_with
from settings.schema import BadSetting
from settings.sources import read_sources, resolve
from tuning.terminal.dry_run_report import dry_run_report
from tuning.terminal.progress_bar import ProgressBar, format_duration
from tuning.terminal.server_client import RefusedRequest, ServerClient
from tuning.types import METHODS
from use import HOME, fill_defaults

POLL_S = 0.5
END_STATES = ("succeeded", "failed", "cancelled")
WAITS: Mapping[str, str] = {  # what a job does before its first step, by its status
    "validating_files": "checking the rows",
    "queued": "waiting for its turn",
    "running": "preparing the first step",
    "paused": "paused",
}
INTERRUPTED = 128 + 2  # the shell's code for a program that SIGINT ended
HYPERPARAMETERS: Mapping[str, tuple[type, str]] = {
    "n_epochs": (int, "passes over the data"),
    "batch_size": (int, "rows of a step"),
    "learning_rate": (float, "largest step size"),
    "learning_rate_multiplier": (float, "factor of the automatic learning rate"),
    "lora_rank": (int, "rank of the adapter"),
    "lora_alpha": (float, "scale of the adapter: alpha/rank"),
    "max_length": (int, "most tokens of a row: longer rows are left out"),
    "max_steps": (int, "most steps"),
    "beta": (float, "how far dpo may move from the base"),
}


def main(arguments: list[str]) -> int:
    """Returns 0 if the model was trained, 1 if it was not, 2 for wrong options or settings."""
    options = make_parser().parse_args(arguments)
    try:
        fill_defaults(options, resolve(read_sources(HOME, os.environ)))
        check_files(options)
        client = ServerClient(options.url, options.api_key, options.verify)
        return dry_run(client, options) if options.dry_run else train(client, options)
    except BadSetting as error:
        print(f"hearth: {error}", file=sys.stderr)
        return 2
    except RefusedRequest as error:
        print(f"tune: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ntune: interrupted", file=sys.stderr)
        return INTERRUPTED
    except requests.ConnectionError:
        print(f"tune: no server answers at {options.url}: start it with python3 main.py", file=sys.stderr)
        return 1
    except requests.RequestException as error:
        print(f"tune: {error}", file=sys.stderr)
        return 1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Fine-tune the model of a running server on a JSONL file.")
    parser.add_argument("data", type=Path, help="rows to train on, one JSON object a line")
    parser.add_argument("--validation", type=Path, help="rows to evaluate on: the best checkpoint is kept")
    parser.add_argument("--model", help="model to train: the base or a fine-tuned one (default: the base)")
    parser.add_argument("--method", choices=METHODS, default="supervised", help="(%(default)s)")
    parser.add_argument(
        "--full", action="store_true", help="train all weights, for a model of its own (default: an adapter)"
    )
    parser.add_argument("--suffix", default="", help="part of the new model's name")
    parser.add_argument("--seed", type=int, help="the same seed and data give the same model")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be trained, and train nothing"
    )
    parser.add_argument("--packing", action="store_true", default=None, help="several rows in one sequence")
    for name, (type_, words) in HYPERPARAMETERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type_, help=f"{words} (default: automatic)")
    parser.add_argument("--url", help="URL of the server (default: the server of the settings)")
    parser.add_argument("--api-key", help="API key (default: on this machine, the first of API_KEYS)")
    return parser


def check_files(options: argparse.Namespace) -> None:
    """Raises RefusedRequest before anything is sent."""
    for path in filter(None, (options.data, options.validation)):
        if not path.is_file():
            raise RefusedRequest(f"{path} is no file: name one with a JSON object in each line")


def train(client: ServerClient, options: argparse.Namespace) -> int:
    start = time.monotonic()
    body = job_body(client, options)
    try:
        job = client.post("/v1/fine_tuning/jobs", body)
    except RefusedRequest:
        delete_files(client, body)
        raise
    print(f"{job['id']}: {job['model']} on {options.data.name}")
    try:
        job = watch(client, job["id"])
    except KeyboardInterrupt:
        print(
            f"\nThe job goes on. To end it: curl -X POST {options.url}/v1/fine_tuning/jobs/{job['id']}/cancel"
        )
        return 1
    if job["status"] != "succeeded":
        reason = (job["error"] or {}).get("message", "")
        print(f"tune: the job has {job['status']}{reason and ': '}{reason}", file=sys.stderr)
        return 1
    name = job["fine_tuned_model"]
    print(f"Trained in {format_duration(time.monotonic() - start)}. The model answers now:")
    print(f"  {name}\n  python3 use.py --url {options.url} --model {name} --prompt 'Your question'")
    return 0


def dry_run(client: ServerClient, options: argparse.Namespace) -> int:
    body = job_body(client, options)
    print("The server checks the rows, plans the memory and times a few steps", file=sys.stderr)
    try:
        report = client.post("/v1/fine_tuning/jobs", body | {"dry_run": True})
    finally:
        delete_files(client, body)
    if report["error"]:
        raise RefusedRequest(report["error"]["message"])
    print(dry_run_report(report, use_colour=sys.stdout.isatty()))
    return 0


def job_body(client: ServerClient, options: argparse.Namespace) -> dict[str, Any]:
    """The body of a new job. Uploads the files."""
    names = (*HYPERPARAMETERS, "packing")
    values = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.full:
        values["finetuning_type"] = "full"
    body = {
        "model": options.model or client.get("/v1/models")["data"][0]["id"],
        "method": {"type": options.method, options.method: {"hyperparameters": values}},
        "suffix": options.suffix,
        "seed": options.seed,
        "training_file": client.upload(options.data),
    }
    if options.validation:
        body["validation_file"] = client.upload(options.validation)
    return body


def delete_files(client: ServerClient, body: Mapping[str, Any]) -> None:
    """Delete the files that were uploaded for a job which does not exist."""
    for name in ("training_file", "validation_file"):
        with contextlib.suppress(RefusedRequest, KeyError):
            client.delete(f"/v1/files/{body[name]}")


def watch(client: ServerClient, job_id: str) -> dict[str, Any]:
    """Show the job's events until it has ended. Returns the job."""
    bar, shown_ids, start = ProgressBar(sys.stdout), set[str](), time.monotonic()
    while True:
        job = client.get(f"/v1/fine_tuning/jobs/{job_id}")
        events = client.get(f"/v1/fine_tuning/jobs/{job_id}/events?limit=100")["data"]
        for event in reversed(events):
            if event["id"] in shown_ids:
                continue
            shown_ids.add(event["id"])
            if event["type"] == "metrics":
                bar.update(event["data"], job["estimated_finish"])
            else:
                bar.print_message(event["message"])
        if job["status"] in END_STATES:
            bar.end()
            return job
        bar.show_wait(WAITS[job["status"]], time.monotonic() - start)
        time.sleep(POLL_S)


if __name__ == "__main__":
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    exit_with(main)
