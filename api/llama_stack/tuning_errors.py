"""The errors of the post-training and dataset routes: an unknown name is an invalid value, status 400.

Clients send a request with status 409 or 5xx again, and the reference server answers 400.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from api.llama_stack.errors import InvalidModel
from inference.errors import NotFound, ServerError
from inference.models import UnknownModel
from inference.served import shorten_name
from tuning.store.datasets import UnknownDataset
from tuning.store.files import UnknownFile
from tuning.store.jobs import UnknownJob

KINDS: dict[type[NotFound], str] = {UnknownJob: "Job", UnknownDataset: "Dataset"}


class InvalidValue(ServerError):
    status: ClassVar[int] = 400

    def __init__(self, message: str) -> None:
        super().__init__(f"Invalid value: {message}")


@contextmanager
def invalid_values() -> Iterator[None]:
    """Raise unknown models, jobs, datasets and files as InvalidValue."""
    try:
        yield
    except UnknownModel as error:
        raise InvalidModel(error) from None
    except (UnknownJob, UnknownDataset) as error:
        raise InvalidValue(f"{KINDS[type(error)]} '{shorten_name(error.id)}' not found") from None
    except UnknownFile as error:
        raise InvalidValue(error.message) from None
