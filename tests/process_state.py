"""What a file of tests changes in its process does not reach the next file.

Which files share a process, and in which order, differs from run to run.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

OF_PYTEST = "PYTEST_CURRENT_TEST"


@contextmanager
def preserved() -> Iterator[None]:
    """Restore environment, working folder, torch's threads, and what Python has of a process, at the end.

    torch's compiler raises the limit of recursion, which tests of nested values run into.
    """
    environment, folder, num_threads = dict(os.environ), os.getcwd(), torch.get_num_threads()
    interval_s, max_recursion = sys.getswitchinterval(), sys.getrecursionlimit()
    try:
        yield
    finally:
        restore_environment(environment)
        os.chdir(folder)
        torch.set_num_threads(num_threads)
        sys.setswitchinterval(interval_s)
        sys.setrecursionlimit(max_recursion)


def restore_environment(environment: dict[str, str]) -> None:
    for name in (os.environ.keys() | environment.keys()) - {OF_PYTEST}:
        if name not in environment:
            del os.environ[name]
        elif os.environ.get(name) != environment[name]:
            os.environ[name] = environment[name]
