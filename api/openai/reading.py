"""A body as vLLM takes it: JSON alone, numbers as text too; and every fault of its shape as vLLM says it."""

from typing import TypeVar

from flask import request

from api.body import decode
from api.openai.errors import WrongBody
from inference.errors import BadRequest

WHOLE = "the body"  # what a fault of no single field is called
NOT_JSON = "Unsupported Media Type: Only 'application/json' is allowed"

T = TypeVar("T")


def read(shape: type[T]) -> T:
    """Raises WrongBody. A body of no told kind is taken for JSON; pages of other sites cannot send that kind
    unasked, as they can forms and plain text."""
    if request.mimetype and not request.is_json:
        raise WrongBody(NOT_JSON)
    try:
        return decode(shape, strict=False)
    except BadRequest as error:
        raise WrongBody(error.message, "" if error.field == WHOLE else error.field) from None
