"""Programs of this project as children of a process: how one starts, is asked to end, and dies with it.

Knows processes: the groups and signals of POSIX, and with windows_group.py what Windows has in their place.
Does not know what a program does.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inference.process import windows_group
from inference.process.windows_group import WindowsGroup

ROOT = Path(__file__).resolve().parents[2]  # `python -m` finds this project's modules here
LAUNCHER = ROOT / "inference" / "process" / "launch.py"
IS_WINDOWS = sys.platform == "win32"
# Exit codes of a process that was killed, and of one that does not handle the request to end.
KILLED = windows_group.KILLED if IS_WINDOWS else -getattr(signal, "SIGKILL", 0)
TERMINATED = windows_group.TERMINATED if IS_WINDOWS else -signal.SIGTERM
EXITS_OF_WINDOWS: Mapping[int, str] = {
    windows_group.KILLED: "it was killed",
    windows_group.TERMINATED: "it was told to end",
}
NEW_GROUP, LOW_PRIORITY = 0x200, 0x4000  # CREATE_NEW_PROCESS_GROUP, BELOW_NORMAL_PRIORITY_CLASS of winbase.h
SHARED_ON_STDIN = "stdin"
PYTHON_OF_VENV = "__PYVENV_LAUNCHER__"  # as in CPython's multiprocessing/popen_spawn_win32.py


class ChildProgram(subprocess.Popen[bytes]):
    """A program at work, which ends when this process dies.

    nice         priority that it gives up, as nice(1) counts; any makes it one class lower on Windows
    stdout       for its output and its errors; None: those of this process
    leads_group  what it starts is killed with it, and Ctrl-C is for this process alone
    connection   a socket that it gets: its last argument is for `receive_connection`
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        nice: int = 0,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: Any = None,
        leads_group: bool = True,
        connection: socket.socket | None = None,
    ) -> None:
        self._leads_group = leads_group
        self._windows_group = WindowsGroup() if IS_WINDOWS and leads_group else None
        super().__init__(
            launch_command([*command, *connection_arguments(connection)], nice),
            cwd=ROOT,
            env=self._windows_environment(os.environ if env is None else env) if IS_WINDOWS else env,
            stdin=subprocess.PIPE if connection and IS_WINDOWS else stdin,
            stdout=stdout,
            stderr=None if stdout is None else subprocess.STDOUT,
            **start_options(nice, leads_group, connection),
        )
        if self._windows_group:
            self._windows_group.add(int(self._handle))  # type: ignore[attr-defined]
        if connection and IS_WINDOWS:
            self._share(connection)

    def terminate(self) -> None:
        """Ask it to end: it gets SIGTERM. On Windows, see parent_process.py."""
        if self.returncode is not None:
            return
        if self._windows_group:
            self._windows_group.ask_to_end()
        else:
            os.kill(self.pid, signal.SIGTERM)  # without a poll: `kill` is for who sees its end first

    def kill(self) -> None:
        """End it at once and, if it leads a group, what is left of the group, also after its own end."""
        if self._windows_group:
            self._windows_group.kill()
        elif not self._leads_group:
            super().kill()
        else:  # macOS denies it for a group of zombies
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _windows_environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        environment = {**environment, PYTHON_OF_VENV: sys.executable, "PYTHONUTF8": "1"}
        return self._windows_group.environment(environment) if self._windows_group else environment

    def _share(self, connection: socket.socket) -> None:
        """Send Windows' description of the socket, which is for this process alone."""
        assert self.stdin
        with contextlib.suppress(OSError), self.stdin as pipe:  # a process that has ended reads nothing
            pipe.write(connection.share(self.pid))  # type: ignore[attr-defined]


def module_command(name: str) -> tuple[str, ...]:
    """The command that runs a module of this project as run_module.py does."""
    return (sys.executable, "-m", "inference.process.run_module", name)


def launch_command(command: Sequence[str], nice: int = 0) -> list[str]:
    """The command with which a child of this process runs `command`, nicer by so much.

    On Windows execv would start another process, whose id nobody knows; so does the python.exe of a virtual
    environment, in whose place its base runs.
    """
    if IS_WINDOWS:
        python = getattr(sys, "_base_executable", sys.executable)
        return [python if command[0] == sys.executable else command[0], *command[1:]]
    return [sys.executable, str(LAUNCHER), str(os.getpid()), str(nice), *command]


def start_options(nice: int, leads_group: bool, connection: socket.socket | None) -> dict[str, Any]:
    """What Popen needs on this system."""
    if IS_WINDOWS:
        return {"creationflags": NEW_GROUP * leads_group | LOW_PRIORITY * (nice > 0)}
    return {
        "start_new_session": leads_group,
        "pass_fds": () if connection is None else (connection.fileno(),),
    }


def connection_arguments(connection: socket.socket | None) -> list[str]:
    if connection is None:
        return []
    return [SHARED_ON_STDIN if IS_WINDOWS else str(connection.fileno())]


def receive_connection(argument: str) -> socket.socket:
    """In a child: the socket that its parent gave it, by its last argument."""
    if argument == SHARED_ON_STDIN:
        return socket.fromshare(sys.stdin.buffer.read())  # type: ignore[attr-defined]
    return socket.socket(fileno=int(argument))


def describe_exit(code: int) -> str:
    """Such as "it was ended by SIGKILL"."""
    if IS_WINDOWS and code in EXITS_OF_WINDOWS:
        return EXITS_OF_WINDOWS[code]
    if code >= 0:
        return f"it ended with exit code {code if code < 256 else hex(code)}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
