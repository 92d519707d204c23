"""A thread gets short slices; the threads that it starts get them only if they are inherited."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from inference.process.time_slice import SHORT_SLICE_NS, read_attributes, shorten_time_slice

T = TypeVar("T")


def run_in_thread(function: Callable[[], T]) -> T:
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def slice_ns() -> int:
    attributes = read_attributes()
    return attributes.runtime if attributes else 0


if not run_in_thread(slice_ns):
    pytest.skip("the system has no time slices to set", allow_module_level=True)


def slices_after_shortening(inherited: bool) -> tuple[int, int]:
    """The slice of a thread with short slices, and of a thread that it starts."""
    shorten_time_slice(inherited)
    return slice_ns(), run_in_thread(slice_ns)


def test_a_thread_that_it_starts_inherits_short_slices() -> None:
    assert run_in_thread(lambda: slices_after_shortening(True)) == (SHORT_SLICE_NS, SHORT_SLICE_NS)


def test_a_thread_that_it_starts_has_the_slices_of_the_system() -> None:
    default_ns = run_in_thread(slice_ns)
    assert run_in_thread(lambda: slices_after_shortening(False)) == (SHORT_SLICE_NS, default_ns)
