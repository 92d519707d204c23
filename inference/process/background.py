"""Runs a function on a daemon thread, which does not delay the end of the process."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T], name: str) -> Callable[[], T]:
    """Start the work. The returned function waits for its result, or raises its exception."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again by the call that waits
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future.result
