"""A loaded adapter as lists of models show it, and the names that adapters may have."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from inference.errors import BadRequest

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")
SUM_PREFIX = "sum:"  # of the names of sums of adapters (api/hooks/adapter_sums.py)


@dataclass(frozen=True, slots=True)
class AdapterCard:
    """A loaded adapter.

    source   the path or Hub id as the client sent it
    number   of this load; never used twice
    rank     the largest rank of its modules; 0: unknown before the first load of its model, or it has none
    nbytes   of its weights in the memory of each process; 0: unknown before the first load of its model
    created  Unix time of the load
    """

    name: str
    source: str
    number: int
    rank: int
    nbytes: int
    created: int


class AdapterExists(BadRequest):
    """An adapter has the name already."""

    def __init__(self, name: str) -> None:
        super().__init__("adapter", f"{name!r} is loaded already: unload it first, or ask to replace it")


def check_name(name: str) -> None:
    """Raise BadRequest for a name that no adapter may have."""
    if not NAME.fullmatch(name) or ".." in name:
        raise BadRequest(
            "adapter",
            "names have 1 to 200 letters, digits and ._:/@-, begin with a letter or digit, and have no '..'",
            name,
        )


def check_own_name(name: str, is_model: Callable[[str], bool]) -> None:
    """Raise BadRequest for a name that no user's adapter may have. is_model: whether a model has the name."""
    check_name(name)
    if name.startswith(SUM_PREFIX):
        raise BadRequest("lora_name", f"must not begin with {SUM_PREFIX}, as the sums of adapters do", name)
    if is_model(name):
        raise BadRequest("lora_name", "is a name of the model: choose another one", name)
