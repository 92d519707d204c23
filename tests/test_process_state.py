"""A file of tests leaves the process as it was."""

import os
import sys
from pathlib import Path

import pytest
import torch

from tests.process_state import preserved


def test_what_is_changed_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGED", "before")
    monkeypatch.setenv("REMOVED", "before")
    environment, folder, threads = dict(os.environ), Path.cwd(), torch.get_num_threads()
    interval_s, max_recursion = sys.getswitchinterval(), sys.getrecursionlimit()
    with preserved():
        os.environ["CHANGED"] = os.environ["ADDED"] = "after"
        del os.environ["REMOVED"]
        os.chdir(tmp_path)
        torch.set_num_threads(threads + 1)
        sys.setswitchinterval(2 * interval_s)
        sys.setrecursionlimit(2 * max_recursion)
    assert (dict(os.environ), Path.cwd(), torch.get_num_threads()) == (environment, folder, threads)
    assert sys.getswitchinterval() == pytest.approx(interval_s)
    assert sys.getrecursionlimit() == max_recursion
