"""Answers that break off: what an upstream sends of one, and what a client gets of it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pytest

from inference.errors import ServerError
from inference.events import Event, Token
from tests.remote.fake_upstream import Reply, Step


def break_off(
    beginning: Sequence[Step], rest: Sequence[Step], loop: asyncio.AbstractEventLoop
) -> tuple[Reply, Callable[[], object]]:
    """A reply whose rest is sent once the client has a token, and what the client calls then.

    Bytes that arrive together are read as one: a client gets nothing of them if they are wrong.
    """
    has_token = asyncio.Event()
    return Reply([*beginning, has_token, *rest]), partial(loop.call_soon_threadsafe, has_token.set)


def fail(
    stream: Iterable[Event], on_token: Callable[[], object] = lambda: None
) -> tuple[ServerError, list[Event]]:
    """The error that ends an answer, and the events before it. on_token: is called after each token"""
    events = []
    with pytest.raises(ServerError) as failure:
        for each in stream:
            events.append(each)
            if isinstance(each, Token):
                on_token()
    return failure.value, events
