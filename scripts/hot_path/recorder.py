"""Records which project code runs on all threads of this process.

Python 3.12 and newer: sys.monitoring covers every thread. Python 3.11: `sys.settrace` only covers threads
that start after it is set, so install the recorder before the server starts. Both count a call for each start
and each resumption of a frame, so each step of a generator counts; comprehensions are frames only before
3.12.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_PROJECT = (ROOT / ".venv", Path(__file__).parent)


class ExecutionRecorder:
    """The calls and executed lines of project code between `start` and `stop`. `installed` connects it.

    idle  functions that an idle server calls; they are not counted
    """

    def __init__(self) -> None:
        self.is_recording = False
        self.idle: set[CodeType] = set()
        self.all_calls: list[CodeType] = []
        self.all_lines: set[tuple[CodeType, int]] = set()

    @property
    def calls(self) -> list[CodeType]:
        return [code for code in self.all_calls if code not in self.idle]

    @property
    def lines(self) -> set[tuple[str, int]]:
        """File and line number of each executed line. Read it only after `stop`."""
        return {(code.co_filename, line) for code, line in self.all_lines if code not in self.idle}

    def start(self) -> None:
        self.all_calls, self.all_lines = [], set()
        self.is_recording = True

    def stop(self) -> None:
        self.is_recording = False

    def record_idle(self, seconds: float) -> None:
        """Add to `idle` all functions called during the next seconds: uvicorn's ticks, for example."""
        self.start()
        time.sleep(seconds)
        self.stop()
        self.idle |= set(self.all_calls)

    def on_call(self, code: CodeType, offset: int) -> object:
        if not is_project(code.co_filename):
            return sys.monitoring.DISABLE
        if self.is_recording:
            self.all_calls.append(code)
        return None

    def on_line(self, code: CodeType, line: int) -> object:
        if not is_project(code.co_filename):
            return sys.monitoring.DISABLE
        if self.is_recording:
            self.all_lines.add((code, line))
        return None

    def trace_call(self, frame: FrameType, event: str, argument: object) -> Any:
        if not is_project(frame.f_code.co_filename):
            return None
        if self.is_recording:
            self.all_calls.append(frame.f_code)
        return self.trace_line

    def trace_line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and self.is_recording:
            self.all_lines.add((frame.f_code, frame.f_lineno))
        return self.trace_line


@contextmanager
def installed(recorder: ExecutionRecorder) -> Iterator[ExecutionRecorder]:
    """Report calls and lines to the recorder within the block, on this thread and threads started in it."""
    if sys.version_info >= (3, 12):
        monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        call_events = (monitoring.events.PY_START, monitoring.events.PY_RESUME)
        monitoring.use_tool_id(tool, "hot_path")
        for event in call_events:
            monitoring.register_callback(tool, event, recorder.on_call)
        monitoring.register_callback(tool, monitoring.events.LINE, recorder.on_line)
        monitoring.set_events(tool, sum(call_events) | monitoring.events.LINE)
        try:
            yield recorder
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
    else:
        threading.settrace(recorder.trace_call)
        sys.settrace(recorder.trace_call)
        try:
            yield recorder
        finally:
            sys.settrace(None)
            threading.settrace(None)


@cache
def is_project(filename: str) -> bool:
    path = Path(filename)
    return ROOT in path.parents and not any(folder in path.parents for folder in NOT_PROJECT)
