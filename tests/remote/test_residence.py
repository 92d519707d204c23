"""A request to a model that is being loaded waits for it no longer than its deadline."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import pytest
from prometheus_client import CollectorRegistry

from inference.errors import Unavailable
from inference.metrics.upstream import UpstreamMetrics
from inference.remote.open import open_child
from inference.remote.residence import AlwaysLoaded
from inference.remote.running_answers import RunningAnswers
from inference.types import GenerationRequest
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.conftest import CHAT


class Unloaded(AlwaysLoaded):
    """A model that is never loaded in time. waits: the seconds that requests would wait at most."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    @asynccontextmanager
    async def use(self, within_s: float = inf) -> AsyncIterator[None]:
        self.waits.append(within_s)
        raise Unavailable("a is being loaded")
        yield


def test_a_request_waits_for_its_model_until_its_deadline(
    loop: asyncio.AbstractEventLoop, registry: CollectorRegistry
) -> None:
    model = parse_entry(1, {"base_model": "a", "inference_server": "hearth:http://localhost"})
    assert isinstance(model, RemoteModel)
    residence = Unloaded()
    backend = open_child(model, residence, UpstreamMetrics(registry), RunningAnswers())
    backend.attach(loop)
    for deadline in (None, 5.0):
        with pytest.raises(Unavailable, match="a is being loaded"):
            list(backend.generate(GenerationRequest(CHAT, deadline=deadline)))
    assert residence.waits[0] == inf and 0 < residence.waits[1] <= 5
    backend.close()
