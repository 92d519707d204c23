"""Turns a panic of a library written in Rust into an Exception.

PyO3 raises a panic as a BaseException, which passes every `except Exception` and would end a thread silently.
Each library has a class of its own for it.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MODULE = "pyo3_runtime"  # of every library's PanicException


class RustPanic(RuntimeError):
    """A library has panicked. The cause is the library's PanicException."""


def is_panic(error: BaseException) -> bool:
    return type(error).__module__ == MODULE


def raises_panics(function: Callable[P, R]) -> Callable[P, R]:
    """The function, raising RustPanic for a panic inside it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception:
            raise
        except BaseException as error:
            if not is_panic(error):
                raise
            raise RustPanic(f"a library has panicked: {error}") from error

    return call
