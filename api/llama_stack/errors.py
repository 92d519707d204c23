"""Errors as clients of every generation read them: `detail`, `error.detail` and `error.message`.

Knows ServerError and the shapes; which status each has is the error's own.
"""

import re
from typing import Any, ClassVar

from api.errors import envelope
from inference.errors import BadRequest, ServerError

REQUIRED = "is required"
STEP = re.compile(r"[^.\[\]]+")
SAMPLED = ("temperature", "top_p", "top_k", "max_tokens", "repetition_penalty", "stop", "seed")
PLACES = {"the body": ""} | {name: f"sampling_params.{name}" for name in SAMPLED}


class UnknownModel(ServerError):
    """The request names a model that is not served: 400, as the reference server answers."""

    status: ClassVar[int] = 400

    def __init__(self, name: str, served: str) -> None:
        super().__init__(f"Invalid value: Model '{name}' not found, this server has '{served}'")


def failed(error: ServerError) -> tuple[int, dict[str, Any]]:
    """Status and body of an error before the first byte."""
    detail = {"errors": [_violation(error)]} if isinstance(error, BadRequest) else None
    return error.status, envelope(error.message, detail)


def broken(error: ServerError) -> list[Any]:
    """What ends a stream that has begun."""
    return [{"error": {"message": f"{error.status}: {error.message}"}}]


def _violation(error: BadRequest) -> dict[str, Any]:
    """messages[0].role → ["body", "messages", 0, "role"]"""
    steps = STEP.findall(PLACES.get(error.field, error.field))
    loc = ["body", *(int(step) if step.isdigit() else step for step in steps)]
    if error.rule.startswith(REQUIRED):
        return {"loc": loc, "msg": "Field required", "type": "missing"}
    return {"loc": loc, "msg": error.message, "type": "value_error"}
