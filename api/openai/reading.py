"""A body as vLLM takes it: JSON alone, and every fault of its shape said as vLLM says it."""

from typing import TypeVar

from flask import request

from api.body import PLAIN, decode
from api.openai.errors import WrongBody
from inference.errors import BadRequest

NOT_JSON = "Unsupported Media Type: Only 'application/json' is allowed"

T = TypeVar("T")


def read(shape: type[T]) -> T:
    """Raises WrongBody. A body of no told kind, or of one that tools tell of any body, is taken for JSON."""
    if request.mimetype and not any(kind in request.mimetype for kind in PLAIN):
        raise WrongBody(NOT_JSON)
    try:
        return decode(shape)
    except BadRequest as error:
        raise WrongBody(error.message, error.field) from None
