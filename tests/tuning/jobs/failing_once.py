"""A function that fails at its first call."""

from collections.abc import Callable
from typing import Any


def failing_once(function: Callable[..., Any], calls: list[int], error: Exception) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return function(*args, **options)

    return run
