"""A child ends with its parent where the system does not end it, and hears it on Windows."""

import os
import sys
from typing import Any

import pytest

from inference.process import parent_process
from inference.process.parent_process import end_with, obey_parent
from inference.process.windows_group import EVENT_NAME, raise_at_event


def test_a_child_ends_when_it_has_another_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    parents, codes = iter((7, 7, 1)), []
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(parent_process, "POLL_S", 0.0)
    end_with(7)
    assert codes == [1] and not list(parents)


@pytest.mark.parametrize(
    ("platform", "started"),
    [("linux", []), ("darwin", [(end_with, os.getppid())]), ("win32", [(raise_at_event, "the name")])],
)
def test_each_system_has_its_thread(
    monkeypatch: pytest.MonkeyPatch, platform: str, started: list[tuple[Any, Any]]
) -> None:
    threads: list[tuple[Any, Any]] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(EVENT_NAME, "the name")
    monkeypatch.setattr(parent_process, "start_thread", lambda *thread: threads.append(thread))
    obey_parent()
    assert threads == started
    assert (EVENT_NAME in os.environ) == (platform != "win32"), "processes below have other events"
