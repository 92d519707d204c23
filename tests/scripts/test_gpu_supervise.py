"""Sections go on in another process where the one that runs them has died."""

from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scripts.gpu.figure import Figure
from scripts.gpu.messages import Began, Measured, Message, Numbers, SectionEnd
from scripts.gpu.report import FigureReport
from scripts.gpu.supervise import supervise

NO_PID = 1 << 30  # larger than any of a process
SPEED = Figure("speed", 12.5, "ms")


def passed(section: str) -> list[Message]:
    return [Began(section, "8b"), Measured(section, SPEED), SectionEnd(section, True)]


class Processes:
    """Starts processes, each of which sends its messages and ends."""

    def __init__(self, *messages: list[Message], exit_code: int = -11) -> None:
        self.messages, self.exit_code = list(messages), exit_code
        self.started: list[tuple[Sequence[str], Numbers]] = []

    def start(self, names: Sequence[str], numbers: Numbers) -> tuple[Any, Connection]:
        self.started.append(([*names], dict(numbers)))
        ours, theirs = Pipe(duplex=False)
        for message in self.messages.pop(0):
            theirs.send(message)
        theirs.close()
        process = SimpleNamespace(
            pid=NO_PID, exitcode=self.exit_code, join=lambda timeout=None: None, kill=lambda: None
        )
        return process, ours


def test_a_process_that_dies_ends_its_section_alone(tmp_path: Path) -> None:
    report = FigureReport(tmp_path)
    processes = Processes([*passed("start"), Began("overlap", "8b")], passed("host"))
    assert not supervise(["start", "overlap", "host"], report, processes.start)
    assert processes.started == [
        (["start", "overlap", "host"], {}),
        (["host"], {("start", "speed"): 12.5}),
    ]
    lines = (tmp_path / "figures.txt").read_text().splitlines()
    assert lines == [
        "start  speed: 12.5 ms",
        "overlap  failed: its process has ended  (exit code -11)",
        "host  speed: 12.5 ms",
    ]
    assert "| host | speed | 12.5 ms |" in (tmp_path / "table.md").read_text()


def test_a_process_that_has_lost_the_gpu_hands_over_between_two_sections(tmp_path: Path) -> None:
    report = FigureReport(tmp_path)
    first = [*passed("start")[:2], SectionEnd("start", False), "the GPU is lost to this process"]
    processes = Processes(first, passed("roofline"), exit_code=0)
    assert not supervise(["start", "roofline"], report, processes.start)
    assert [names for names, _ in processes.started] == [["start", "roofline"], ["roofline"]]
    assert report.model == "8b" and len(report.rows) == 2


def test_a_process_that_cannot_begin_is_not_started_again(tmp_path: Path) -> None:
    processes = Processes(["no such shape"])
    assert not supervise(["start", "roofline"], FigureReport(tmp_path), processes.start)
    assert len(processes.started) == 1
