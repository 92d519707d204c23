"""A client's process runs all drivers, and is another one after a driver that failed."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import client_process
from tests.clients.client_process import end_all, run_driver

REPORT = "import json, os, sys\nprint(json.dumps([os.getpid(), *sys.argv[1:]]))"


@pytest.fixture(autouse=True)
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of every client is that of the tests."""
    monkeypatch.setattr(client_process, "python", lambda name: sys.executable)
    monkeypatch.setattr(client_process, "RUNNING", {})
    yield
    end_all()


def write_driver(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_client_is_imported_once_for_all_drivers(tmp_path: Path) -> None:
    driver = write_driver(tmp_path / "driver.py", REPORT)
    (first_pid, *first), (second_pid, *second) = (run_driver("own", driver, text) for text in ("a", "b"))
    assert first_pid == second_pid != os.getpid() and (first, second) == (["a"], ["b"])


@pytest.mark.parametrize("failure", ["raise ValueError('spoiled')", "raise SystemExit('spoiled')"])
def test_a_driver_that_fails_is_reported_and_disturbs_no_other(tmp_path: Path, failure: str) -> None:
    good = write_driver(tmp_path / "good.py", REPORT)
    (first_pid,) = run_driver("own", good)
    with pytest.raises(AssertionError, match="spoiled"):
        run_driver("own", write_driver(tmp_path / "bad.py", failure))
    (second_pid, *_) = run_driver("own", good, "again")
    assert second_pid != first_pid
