"""The process group of ranks on one machine."""

import os
import sys

import pytest

from inference.model import process_group


@pytest.mark.parametrize(("platform", "interface"), [("linux", "lo"), ("darwin", "lo0"), ("win32", None)])
def test_gloo_gets_the_systems_loopback_interface(
    monkeypatch: pytest.MonkeyPatch, platform: str, interface: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(process_group.distributed, "init_process_group", lambda *arguments, **options: None)
    monkeypatch.setattr(process_group.torch, "set_num_threads", lambda count: None)
    for name in ("LOCAL_RANK", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")  # so that it is absent again at the end of the test
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    process_group.join_process_group(process_group.distributed.HashStore(), 0, 1, "cpu")
    assert os.environ.get("GLOO_SOCKET_IFNAME") == interface


def test_a_process_that_has_left_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    process_group.leave_process_group()
    assert "LOCAL_RANK" not in os.environ
