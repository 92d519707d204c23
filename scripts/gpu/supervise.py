"""Has the sections run by another process, and by a new one from the next section on where that has died.

A crash, a hang or an error after which CUDA refuses all work of a process ends its section alone. Knows the
report and the messages of the process; not what a section measures. Imports no library that takes time.
"""

import argparse
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from scripts.gpu.figure import Figure
from scripts.gpu.messages import Began, Measured, Numbers, SectionEnd
from scripts.gpu.report import FigureReport

EXIT_S = 20  # that a process has to end by itself, once it has closed its connection
# Starts the process of these sections, which knows the numbers so far.
StartProcess = Callable[[Sequence[str], Numbers], tuple[BaseProcess, Connection]]


def supervise(names: Sequence[str], report: FigureReport, start: StartProcess) -> bool:
    """Run the sections; returns whether all passed."""
    pending, passed = list(names), True
    while pending:
        process, connection = start(pending, report.numbers)
        num_pending = len(pending)
        try:
            running, all_passed = follow(connection, report, pending)
            process.join(EXIT_S)
        finally:  # also where this process is to end
            end_session(process)
        passed = passed and all_passed
        if running:
            code = f"exit code {process.exitcode}"
            report.add(running, Figure("failed", "its process has ended", remark=code))
            report.write_table()
            pending.remove(running)
            passed = False
        elif len(pending) == num_pending:  # it could not even begin
            return False
    return passed


def follow(connection: Connection, report: FigureReport, pending: list[str]) -> tuple[str, bool]:
    """Report what the process measures until it ends, and take the sections that have ended from `pending`.

    Returns the section in which it ended, empty if it was between two of them, and whether the others passed.
    """
    running, passed = "", True
    with suppress(EOFError):
        while True:
            match connection.recv():
                case str(line):
                    report.write(line)
                case Began(section, model):
                    running, report.model = section, model
                case Measured(section, figure):
                    report.add(section, figure)
                case SectionEnd(section, has_passed):
                    pending.remove(section)
                    running, passed = "", passed and has_passed
            report.write_table()
    return running, passed


def end_session(process: BaseProcess) -> None:
    """End the process and all that it has started."""
    assert process.pid is not None
    process.kill()
    with suppress(ProcessLookupError):  # it has not come to have a session, or nothing is left of it
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def start_process(
    args: argparse.Namespace, end_s: float, names: Sequence[str], numbers: Numbers
) -> tuple[BaseProcess, Connection]:
    """Start the process that runs these sections. end_s: time.monotonic() at the end of the run."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=run_child, args=(theirs, args, [*names], dict(numbers), end_s))
    process.start()
    theirs.close()
    return process, ours


def run_child(*arguments: object) -> None:
    """In the other process, which imports the libraries, with the server's allocator (main.py)."""
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    import_module("scripts.gpu.run_sections").run_sections(*arguments)
