"""The routes that list sessions, runs and checkpoints, and change checkpoints. Entry point: ROUTES."""

import re
import time
from typing import Any

from flask import Response, request

from api.body.json_body import read_struct
from api.openapi.operation import Operation
from api.tinker.bodies import TtlBody, WeightsInfoBody
from api.tinker.tinker_route import TinkerRoute, requested_page, require_runs
from tuning.runs.paths import SCHEME
from tuning.runs.types import CheckpointKind, RunCheckpoint, RunInfo

OWNER = "local"
VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})")
EXTERNAL_SINCE = (0, 28)
TYPES: dict[CheckpointKind, str] = {
    "weights": "training",
    "sampler_weights": "sampler",
    "external_weights": "external",
}
PAGE = {"offset": "first object of the page; 0 by default", "limit": "objects of a page; 20 by default"}
CHECKPOINT = "/training_runs/<run_id>/checkpoints/<kind>/<name>"


def list_runs() -> dict[str, Any]:
    page, runs = requested_page(), require_runs().runs()
    return {
        "training_runs": [run_json(run) for run in runs[page.slice]],
        "cursor": page.cursor(len(runs)),
    }


def get_run(run_id: str) -> dict[str, Any]:
    return run_json(require_runs().run(run_id))


def list_checkpoints() -> dict[str, Any]:
    page, checkpoints = requested_page(), known_to_client(require_runs().checkpoints())
    return {
        "checkpoints": [checkpoint_json(each) for each in checkpoints[page.slice]],
        "cursor": page.cursor(len(checkpoints)),
    }


def list_checkpoints_of_run(run_id: str) -> dict[str, Any]:
    runs = require_runs()
    checkpoints = known_to_client(runs.checkpoints(runs.run(run_id).id))
    return {"checkpoints": [checkpoint_json(each) for each in checkpoints], "cursor": None}


def known_to_client(checkpoints: list[RunCheckpoint]) -> list[RunCheckpoint]:
    """Without external ones for a client that does not know that type, and fails on it."""
    version = VERSION.match(request.headers.get("X-Stainless-Package-Version", ""))
    if version is None or (int(version[1]), int(version[2])) >= EXTERNAL_SINCE:
        return checkpoints
    return [each for each in checkpoints if each.kind != "external_weights"]


def list_sessions() -> dict[str, Any]:
    page, sessions = requested_page(), require_runs().sessions()
    return {
        "sessions": [session.id for session in sessions[page.slice]],
        "cursor": page.cursor(len(sessions)),
    }


def get_session(session_id: str) -> dict[str, Any]:
    runs = require_runs()
    session = runs.session(session_id)
    return {
        "training_run_ids": [run.id for run in runs.runs(session_id)],
        "sampler_ids": [sampler.id for sampler in runs.samplers(session_id)],
        "user_metadata": dict(session.user_metadata),
        "display_name": session.display_name,
    }


def weights_info() -> dict[str, Any]:
    options = require_runs().checkpoint(read_struct(WeightsInfoBody).tinker_path).options
    return {
        "base_model": options.base_model,
        "is_lora": True,
        "lora_rank": options.rank,
        "train_unembed": options.train_unembed,
        "train_mlp": options.train_mlp,
        "train_attn": options.train_attn,
        "optimizer_config": {"type": "adamw"},
    }


def delete_checkpoint(run_id: str, kind: str, name: str) -> Response:
    require_runs().delete_checkpoint(path_of(run_id, kind, name))
    return Response(status=204)


def set_ttl(run_id: str, kind: str, name: str) -> dict[str, Any]:
    require_runs().set_ttl(path_of(run_id, kind, name), read_struct(TtlBody).ttl_seconds)
    return {}


def publish(run_id: str, kind: str, name: str) -> dict[str, Any]:
    require_runs().publish(path_of(run_id, kind, name), is_public=True)
    return {}


def unpublish(run_id: str, kind: str, name: str) -> Response:
    require_runs().publish(path_of(run_id, kind, name), is_public=False)
    return Response(status=204)


def path_of(run_id: str, kind: str, name: str) -> str:
    return f"{SCHEME}{run_id}/{kind}/{name}"


def run_json(run: RunInfo) -> dict[str, Any]:
    checkpoints = require_runs().checkpoints(run.id)
    return {
        "training_run_id": run.id,
        "base_model": run.options.base_model,
        "model_owner": OWNER,
        "is_lora": True,
        "corrupted": run.is_corrupted,
        "lora_rank": run.options.rank,
        "last_request_time": time_json(run.last_request or run.created),
        "last_checkpoint": latest_json(checkpoints, "weights"),
        "last_sampler_checkpoint": latest_json(checkpoints, "sampler_weights"),
        "user_metadata": dict(run.options.user_metadata),
    }


def latest_json(checkpoints: list[RunCheckpoint], kind: CheckpointKind) -> dict[str, Any] | None:
    """The newest checkpoint of this kind. checkpoints: newest first."""
    return next((checkpoint_json(each) for each in checkpoints if each.kind == kind), None)


def checkpoint_json(checkpoint: RunCheckpoint) -> dict[str, Any]:
    return {
        "checkpoint_id": f"{checkpoint.kind}/{checkpoint.name}",
        "checkpoint_type": TYPES[checkpoint.kind],
        "time": time_json(checkpoint.created),
        "tinker_path": checkpoint.id,
        "size_bytes": checkpoint.num_bytes,
        "public": checkpoint.is_public,
        "user_metadata": dict(checkpoint.user_metadata),
        "expires_at": None if checkpoint.expires is None else time_json(checkpoint.expires),
    }


def time_json(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


ROUTES = (
    TinkerRoute("GET", "/training_runs", list_runs, Operation("List the training runs", query=PAGE)),
    TinkerRoute("GET", "/training_runs/<run_id>", get_run, Operation("Show a training run")),
    TinkerRoute(
        "GET",
        "/training_runs/<run_id>/checkpoints",
        list_checkpoints_of_run,
        Operation("List the checkpoints of a run"),
    ),
    TinkerRoute(
        "GET",
        "/models/<run_id>/checkpoints",
        list_checkpoints_of_run,
        Operation("List the checkpoints of a run, for the oldest clients"),
    ),
    TinkerRoute("GET", "/checkpoints", list_checkpoints, Operation("List all checkpoints", query=PAGE)),
    TinkerRoute("GET", "/sessions", list_sessions, Operation("List the sessions", query=PAGE)),
    TinkerRoute("GET", "/sessions/<session_id>", get_session, Operation("Show a session")),
    TinkerRoute(
        "POST", "/weights_info", weights_info, Operation("Show what a checkpoint is of", body=WeightsInfoBody)
    ),
    TinkerRoute("DELETE", CHECKPOINT, delete_checkpoint, Operation("Delete a checkpoint")),
    TinkerRoute(
        "PUT", f"{CHECKPOINT}/ttl", set_ttl, Operation("Set when a checkpoint expires", body=TtlBody)
    ),
    TinkerRoute("POST", f"{CHECKPOINT}/publish", publish, Operation("Mark a checkpoint as public")),
    TinkerRoute("DELETE", f"{CHECKPOINT}/publish", unpublish, Operation("Take the mark off a checkpoint")),
)
