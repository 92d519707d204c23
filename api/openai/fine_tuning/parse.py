"""Converts the body of a new job to a JobRequest. Raises InvalidParameter."""

from collections.abc import Mapping
from typing import Any, cast

from api.openai.errors import InvalidParameter
from api.openai.fine_tuning.protocol import CreateJob
from api.openai.stored import check_metadata
from inference.errors import short
from tuning.jobs.hyperparameters import TARGETS
from tuning.types import METHODS, JobRequest, Method


def to_job_request(body: CreateJob) -> JobRequest:
    check_metadata(body.metadata)
    if body.integrations:
        raise InvalidParameter("integrations are not supported: leave them out", "integrations")
    method, hyperparameters = read_method(body)
    return JobRequest(
        model=body.model,
        method=method,
        training=body.training_file,
        validation=body.validation_file or "",
        suffix=body.suffix or "",
        seed=body.seed,
        metadata=body.metadata,
        hyperparameters=hyperparameters,
    )


def read_method(body: CreateJob) -> tuple[Method, dict[str, Any]]:
    """The method and its hyperparameters, which the field `hyperparameters` of older clients adds to."""
    fields = body.method or {}
    name = fields.get("type", "supervised")
    if name not in METHODS:
        raise InvalidParameter(f"method.type must be {' or '.join(METHODS)}, got {short(name)}", "method")
    options = read_object(fields, name, f"method.{name}")
    values = {
        **(body.hyperparameters or {}),
        **read_object(options, "hyperparameters", f"method.{name}.hyperparameters"),
    }
    if TARGETS in values:
        values["target_modules"] = values.pop(TARGETS)
    return cast(Method, name), values


def read_object(fields: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """An object, or nothing, which is an empty one."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParameter(f"{path} must be an object, got {short(value)}", path)
    return value
