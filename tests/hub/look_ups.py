"""Looking models up at a hub."""

from collections.abc import Callable

import pytest

from hub.repository import Repository
from inference.finding import Finding, Refused

LookUp = Callable[..., Repository]


def refusal(look_up: LookUp, *args: str, **changes: object) -> Finding:
    with pytest.raises(Refused) as caught:
        look_up(*args, **changes)
    return caught.value.finding
