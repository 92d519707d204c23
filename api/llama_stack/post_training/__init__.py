"""Llama Stack's post-training routes in the paths of every generation. Entry point: make_routes."""

from collections.abc import Iterable
from typing import Any

from api.llama_stack.post_training.protocol import (
    CancelRequest,
    JobArtifacts,
    JobLogs,
    JobStatus,
    ListPostTrainingJobs,
    PostTrainingJob,
    PreferenceOptimizeRequest,
    SupervisedFineTuneRequest,
)
from api.llama_stack.post_training.routes import PostTrainingRoutes
from api.llama_stack.protocol.errors import LlamaStackErrorResponse
from api.llama_stack.tuning_route import TuningRoute
from api.llama_stack.versions import V1ALPHA, ProtocolVersion
from api.openapi.operation import Operation
from inference.models import Models
from settings.groups import ServerSettings

JOB_QUERY = {"job_uuid": "The job's name."}
FORM_NOTE = "The configs may be text that contains their JSON, as a command line sends them."


def make_routes(version: ProtocolVersion, models: Models, settings: ServerSettings) -> Iterable[TuningRoute]:
    """The routes below the version's prefix."""
    jobs = PostTrainingRoutes(version, models, settings)
    listed = ListPostTrainingJobs if version.lists_in_data else list[PostTrainingJob]
    create, preference = SupervisedFineTuneRequest, PreferenceOptimizeRequest
    yield TuningRoute(
        "POST",
        "/post training/supervised fine tune",
        jobs.supervised_fine_tune,
        _operation("Train an adapter on a dataset", PostTrainingJob, FORM_NOTE, body=create),
    )
    yield TuningRoute(
        "POST",
        "/post training/preference optimize",
        jobs.preference_optimize,
        _operation("Train an adapter on preferences (DPO)", PostTrainingJob, FORM_NOTE, body=preference),
    )
    yield TuningRoute(
        "GET", "/post training/jobs", jobs.list_jobs, _operation("List the training jobs", listed)
    )
    for name, view, response, summary in (
        ("status", jobs.status, JobStatus, "Show a training job"),
        ("artifacts", jobs.artifacts, JobArtifacts, "List the checkpoints of a training job"),
        ("logs", jobs.logs, JobLogs, "Show the messages of a training job"),
    ):
        operation = _operation(summary, response, query=JOB_QUERY)
        yield TuningRoute("GET", f"/post training/job/{name}", view, operation)
        if version is V1ALPHA:
            path = f"/post training/jobs/<job_uuid>/{name}"
            yield TuningRoute("GET", path, view, _operation(summary, response))
    cancel = _operation("Cancel a training job", None, body=CancelRequest)
    yield TuningRoute("POST", "/post training/job/cancel", jobs.cancel, cancel)
    if version is V1ALPHA:
        path = "/post training/jobs/<job_uuid>/cancel"
        yield TuningRoute("POST", path, jobs.cancel_by_path, _operation("Cancel a training job", None))


def _operation(summary: str, response: Any, description: str = "", **fields: Any) -> Operation:
    return Operation(summary, description, response=response, error=LlamaStackErrorResponse, **fields)
