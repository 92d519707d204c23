"""Children of a process: how one is started, asked to end, and killed with what it has started."""

import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from inference.process import child_program
from inference.process.child_program import (
    KILLED,
    TERMINATED,
    ChildProgram,
    connection_arguments,
    describe_exit,
    launch_command,
    receive_connection,
    start_options,
)

ROOT = Path(__file__).resolve().parents[2]
# Names that Windows lacks, by their modules.
POSIX_NAMES = {
    "os": ("O_NOFOLLOW", "O_NONBLOCK", "geteuid", "killpg", "statvfs", "nice", "pread"),
    "mmap": ("MAP_PRIVATE", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE", "MADV_HUGEPAGE", "MADV_DONTNEED"),
    "signal": ("SIGKILL", "SIGURG", "SIGUSR1", "SIGHUP"),
    "socket": ("AF_UNIX",),
}
MODULES = (
    "inference/native/weight_cache/replace_memory.py",
    "inference/on_demand/model_process.py",
    "inference/on_demand/process_address.py",
    "inference/process/cache_folder.py",
    "inference/process/child_program.py",
    "inference/process/file_lease.py",
    "inference/process/filesystem.py",
    "inference/process/listen_address.py",
    "inference/process/parent_process.py",
    "inference/process/windows_group.py",
    "tuning/jobs/process.py",
)
SLEEP = "import time; time.sleep(600)"
OBEDIENT = "from inference.process.parent_process import obey_parent; obey_parent(); print(1, flush=True); "
PARENT = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', '{SLEEP}']).pid, flush=True)"


def start(program: str, *, leads_group: bool = True) -> ChildProgram:
    command = (sys.executable, "-c", program)
    return ChildProgram(command, stdout=subprocess.PIPE, leads_group=leads_group)


def read_number(process: ChildProgram) -> int:
    assert process.stdout
    return int(process.stdout.readline())


@pytest.mark.parametrize("leads_group", [True, False])
def test_a_killed_child_is_gone(leads_group: bool) -> None:
    with start(SLEEP, leads_group=leads_group) as process:
        process.kill()
        code = process.wait(60)
        assert code == KILLED or not leads_group
        process.kill()  # of a process that has ended


def test_what_a_child_has_started_ends_with_it() -> None:
    with start(f"{PARENT}; {SLEEP}") as process:
        below = psutil.Process(read_number(process))
        process.kill()
        below.wait(60)


def test_a_child_that_does_not_handle_the_request_to_end_ends() -> None:
    with start(OBEDIENT + SLEEP) as process:
        read_number(process)
        process.terminate()
        assert process.wait(60) == TERMINATED and describe_exit(TERMINATED)
        process.terminate()  # of a process that has ended


def test_a_child_handles_the_request_to_end() -> None:
    handler = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); "
    with start(handler + OBEDIENT + "import time; [time.sleep(0.01) for _ in range(60_000)]") as process:
        read_number(process)
        process.terminate()
        assert process.wait(60) == 7


@pytest.mark.system("windows")  # elsewhere the tests of tuning kill servers
def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    command = f"(sys.executable, '-c', '{SLEEP}')"
    program = "import sys, time; from inference.process.child_program import ChildProgram; "
    program += f"child = ChildProgram({command}); print(child.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        child.wait(60)


def test_a_child_talks_through_the_socket_that_it_is_given() -> None:
    own, other = socket.socketpair()
    program = "import sys; from inference.process.child_program import receive_connection; "
    program += "receive_connection(sys.argv[1]).sendall(b'here')"
    with own:
        with other:
            process = ChildProgram((sys.executable, "-c", program), connection=other)
        assert own.recv(4) == b"here"
        assert process.wait(60) == 0


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_program, "IS_WINDOWS", True)


@pytest.mark.usefixtures("windows")
def test_windows_runs_a_child_without_the_launcher_of_a_virtual_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would start another process: its id, its memory and its sockets would not be those of the child."""
    monkeypatch.setattr(sys, "_base_executable", "base")
    assert launch_command((sys.executable, "-c", "pass"), nice=5) == ["base", "-c", "pass"]
    assert launch_command(("other", "-c", "pass")) == ["other", "-c", "pass"]


@pytest.mark.usefixtures("windows")
def test_windows_has_groups_and_classes_of_priority() -> None:
    assert start_options(nice=0, leads_group=True, connection=None) == {"creationflags": 0x200}
    assert start_options(nice=3, leads_group=False, connection=None) == {"creationflags": 0x4000}


@pytest.mark.usefixtures("windows")
def test_windows_describes_a_socket_on_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = socket.socketpair()
    with own, other, open(os.devnull) as nothing:
        (argument,) = connection_arguments(other)
        monkeypatch.setattr(sys, "stdin", nothing)
        monkeypatch.setattr(socket, "fromshare", lambda description: (other, description), raising=False)
        assert receive_connection(argument) == (other, b"")


def test_the_end_of_a_child_is_described() -> None:
    assert describe_exit(3) == "it ended with exit code 3"
    assert describe_exit(0xC0000005) == "it ended with exit code 0xc0000005"
    assert describe_exit(-signal.SIGTERM) == "it was ended by SIGTERM"


@pytest.mark.usefixtures("windows")
def test_the_end_of_a_child_of_windows_is_described() -> None:
    assert (describe_exit(137), describe_exit(143)) == ("it was killed", "it was told to end")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_needs_no_posix_names_to_be_imported(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for owner, names in POSIX_NAMES.items():
        for name in names:
            monkeypatch.delattr(f"{owner}.{name}", raising=False)
    runpy.run_path(str(ROOT / module), run_name="imported")
