"""Programs of this project as children of a process: how one is started so that it dies with its parent.

Knows commands and exit codes; not what a program does.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]  # `python -m` finds this project's modules here
LAUNCHER = ROOT / "inference" / "process" / "launch.py"
SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has none: there SIGTERM ends a process at once


def module_command(name: str) -> tuple[str, ...]:
    """The command that runs a module of this project as run_module.py does."""
    return (sys.executable, "-m", "inference.process.run_module", name)


def launch_command(command: Sequence[str], nice: int = 0) -> list[str]:
    """The command with which a child of this process runs `command`, nicer by so much.

    On Windows that is the command itself: execv starts another process there, whose id nobody knows.
    """
    if os.name == "nt":
        return list(command)
    return [sys.executable, str(LAUNCHER), str(os.getpid()), str(nice), *command]


def inherit(connection: socket.socket) -> dict[str, Any]:
    """Arguments of Popen with which a child gets this socket: socket.socket(fileno=connection.fileno())."""
    if os.name != "nt":
        return {"pass_fds": (connection.fileno(),)}
    connection.set_inheritable(True)
    handles = {"handle_list": [connection.fileno()]}
    return {"startupinfo": subprocess.STARTUPINFO(lpAttributeList=handles)}  # type: ignore[attr-defined]


def signal_group(process: subprocess.Popen[Any], number: int) -> None:
    """Send a signal to a process that leads a group, and to the group; on Windows to the process alone."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def describe_exit(code: int) -> str:
    """Such as "it was ended by SIGKILL"."""
    if code >= 0:
        return f"it ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
