"""Waits on a thread for work on the server's event loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work` on the loop. Blocks this thread, which must not be the loop's."""
    assert not is_running_here(loop), "the event loop would wait for itself"
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
