"""Children of a process end with their group, also where the system has no groups or no SIGKILL."""

import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from inference.process.child_program import SIGKILL, inherit, launch_command, signal_group

ROOT = Path(__file__).resolve().parents[2]
# Names that Windows lacks, by their modules.
POSIX_NAMES = {
    "os": ("O_NOFOLLOW", "O_NONBLOCK", "geteuid", "killpg", "statvfs"),
    "mmap": ("MAP_PRIVATE", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE", "MADV_HUGEPAGE", "MADV_DONTNEED"),
    "signal": ("SIGKILL", "SIGURG", "SIGUSR1", "SIGHUP"),
    "socket": ("AF_UNIX",),
}
MODULES = (
    "inference/native/weight_cache/replace_memory.py",
    "inference/on_demand/model_process.py",
    "inference/process/cache_folder.py",
    "inference/process/child_program.py",
    "inference/process/file_lease.py",
    "inference/process/filesystem.py",
    "inference/process/listen_address.py",
    "tuning/jobs/process.py",
)


@pytest.mark.parametrize("has_groups", [True, False])
def test_a_killed_child_is_gone(monkeypatch: pytest.MonkeyPatch, has_groups: bool) -> None:
    if not has_groups:
        monkeypatch.delattr(os, "killpg")
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    signal_group(process, SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    signal_group(process, SIGKILL)  # of a process that has ended


def test_windows_runs_a_child_without_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("python", "-c", "pass")
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        assert launch_command(command, nice=5) == list(command)


def test_windows_gives_a_child_the_handle_of_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = socket.socketpair()
    with own, other, monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        patch.setattr(subprocess, "STARTUPINFO", SimpleNamespace, raising=False)
        arguments = inherit(other)
        assert arguments["startupinfo"].lpAttributeList == {"handle_list": [other.fileno()]}
        assert other.get_inheritable() and not own.get_inheritable()


def test_a_child_talks_through_an_inherited_socket() -> None:
    own, other = socket.socketpair()
    program = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(b'here')"
    with own, other:
        subprocess.run(
            [sys.executable, "-S", "-c", program, str(other.fileno())], check=True, **inherit(other)
        )
        assert own.recv(4) == b"here"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_needs_no_posix_names_to_be_imported(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for owner, names in POSIX_NAMES.items():
        for name in names:
            monkeypatch.delattr(f"{owner}.{name}", raising=False)
    runpy.run_path(str(ROOT / module), run_name="imported")
