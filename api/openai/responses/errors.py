"""Errors about a field of a chat request, with the name that a response's body has for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from inference.errors import BadRequest, ServerError

RESPONSE_FIELDS = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
}


@contextmanager
def named_as_in_responses() -> Iterator[None]:
    """Renames the field of a BadRequest that is raised inside."""
    try:
        yield
    except BadRequest as error:
        rename_field(error)
        raise


def rename_field(error: ServerError) -> ServerError:
    """The same error, with the name of its field changed."""
    name = RESPONSE_FIELDS.get(error.field) if isinstance(error, BadRequest) else None
    if name and isinstance(error, BadRequest):
        if error.message.startswith(f"{error.field} "):
            error.message = name + error.message.removeprefix(error.field)
        error.field = name
    return error
