"""OpenAI's fine-tuning jobs over the jobs of the tuning service. Entry point: ROUTES."""

from collections.abc import Callable
from typing import Any

from flask import Response

from api.errors import json_response
from api.hooks.tuning_access import require_service
from api.openai.fine_tuning.objects import checkpoint_object, dry_run_object, event_object, job_object
from api.openai.fine_tuning.parse import to_job_request
from api.openai.fine_tuning.protocol import (
    CANCEL,
    CHECKPOINTS,
    CREATE,
    EVENTS,
    GET,
    LIST,
    PAUSE,
    RESUME,
    CreateJob,
)
from api.openai.requests.parse import read_request
from api.openai.stored import StoredRoute, page_query, read_metadata_filter
from tuning.store.table import ListPage
from tuning.types import Job

CHECKPOINTS_LIMIT = 10  # of a page by default
JOBS = "/fine_tuning/jobs"


def create() -> Response:
    """Create a job; with dry_run, validate it alone."""
    body = read_request(CreateJob)
    jobs, job_request = require_service().jobs, to_job_request(body)
    if body.dry_run:
        return json_response(200, dry_run_object(jobs.dry_run(job_request)))
    return json_response(200, job_object(jobs.create(job_request)))


def list_jobs() -> Response:
    query, pairs = page_query(), read_metadata_filter()

    def accept(job: Job) -> bool:
        return pairs.items() <= (job.request.metadata or {}).items()

    listing = require_service().jobs.list(limit=query.limit, after=query.after, accept=accept)
    return list_response(listing, job_object)


def get(job_id: str) -> Response:
    return json_response(200, job_object(require_service().jobs.get(job_id)))


def cancel(job_id: str) -> Response:
    return json_response(200, job_object(require_service().jobs.cancel(job_id)))


def pause(job_id: str) -> Response:
    return json_response(200, job_object(require_service().jobs.pause(job_id)))


def resume(job_id: str) -> Response:
    return json_response(200, job_object(require_service().jobs.resume(job_id)))


def list_events(job_id: str) -> Response:
    query = page_query()
    listing = require_service().jobs.events(job_id, limit=query.limit, after=query.after)
    return list_response(listing, event_object)


def list_checkpoints(job_id: str) -> Response:
    query = page_query(default_limit=CHECKPOINTS_LIMIT)
    listing = require_service().jobs.checkpoints(job_id, limit=query.limit, after=query.after)
    return list_response(listing, checkpoint_object)


def list_response(listing: ListPage[Any], to_object: Callable[[Any], Any]) -> Response:
    data = [to_object(value) for value in listing.values]
    return json_response(200, {"object": "list", "data": data, "has_more": listing.has_more})


ROUTES = (
    StoredRoute("POST", JOBS, create, CREATE),
    StoredRoute("GET", JOBS, list_jobs, LIST),
    StoredRoute("GET", f"{JOBS}/<job_id>", get, GET),
    StoredRoute("POST", f"{JOBS}/<job_id>/cancel", cancel, CANCEL),
    StoredRoute("POST", f"{JOBS}/<job_id>/pause", pause, PAUSE),
    StoredRoute("POST", f"{JOBS}/<job_id>/resume", resume, RESUME),
    StoredRoute("GET", f"{JOBS}/<job_id>/events", list_events, EVENTS),
    StoredRoute("GET", f"{JOBS}/<job_id>/checkpoints", list_checkpoints, CHECKPOINTS),
)
