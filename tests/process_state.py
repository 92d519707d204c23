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
    """Restore environment, working folder, torch's threads and Python's switch interval at the end."""
    environment, folder = dict(os.environ), os.getcwd()
    num_threads, interval_s = torch.get_num_threads(), sys.getswitchinterval()
    try:
        yield
    finally:
        restore_environment(environment)
        os.chdir(folder)
        torch.set_num_threads(num_threads)
        sys.setswitchinterval(interval_s)


def restore_environment(environment: dict[str, str]) -> None:
    for name in (os.environ.keys() | environment.keys()) - {OF_PYTEST}:
        if name not in environment:
            del os.environ[name]
        elif os.environ.get(name) != environment[name]:
            os.environ[name] = environment[name]
