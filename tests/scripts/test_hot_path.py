"""The script that records which files one streamed request executes."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from checks import columns
from scripts.hot_path import recorder as recorder_module
from scripts.hot_path.measurement import (
    EnteredFunction,
    Measurement,
    file_list,
    function_list,
    measurement,
    table,
)
from scripts.hot_path.recorder import ExecutionRecorder, installed, is_project
from scripts.hot_path.targets import RUNNERS

ROOT = Path(__file__).parent.parent.parent


def line_up() -> None:
    assert list(columns.align_columns([["ab", "1"], ["c", "20"]], num_text_columns=1)) == ["ab   1", "c   20"]


def test_calls_and_lines_of_every_thread_are_recorded_while_recording() -> None:
    with installed(ExecutionRecorder()) as recorder:
        line_up()
        recorder.start()
        thread = threading.Thread(target=line_up)
        thread.start()
        thread.join()
        recorder.stop()
        line_up()
    once = [code.co_name for code in recorder.calls].count("line_up")
    numbers = measurement("fused", "tgi", recorder)
    executed, total = numbers.files["checks/columns.py"]
    assert once == 1 and numbers.num_calls == len(recorder.calls) > numbers.num_functions > 1
    assert 0 < executed < total


def test_calls_of_an_idle_server_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def be_idle(seconds: float) -> None:
        thread = threading.Thread(target=line_up)
        thread.start()
        thread.join()

    monkeypatch.setattr(recorder_module, "time", SimpleNamespace(sleep=be_idle))
    with installed(ExecutionRecorder()) as recorder:
        recorder.record_idle(1.0)
        recorder.start()
        line_up()
        recorder.stop()
    assert not recorder.calls and not recorder.lines


def test_only_files_of_the_project_count() -> None:
    assert is_project(str(ROOT / "main.py")) and is_project(columns.__file__)
    assert not is_project(json.__file__) and not is_project(pytest.__file__) and not is_project("<string>")


def test_a_report_has_a_line_per_request_per_file_and_per_function() -> None:
    functions = (EnteredFunction("a.py", "f", 1), EnteredFunction("b/c.py", "C.g", 4999))
    engine_file = "inference/engine/core.py"
    each = Measurement("fused", "tgi", {"a.py": (2, 10), engine_file: (30, 1000)}, functions)
    assert list(table([each])) == [
        "runner  dialect  files  lines  executed  functions  calls  engine files  lines",
        "fused   tgi          2  1,010        32          2  5,000             1  1,000",
    ]
    assert list(file_list(each)) == ["fused, tgi", "     2 /  10  a.py", f"    30 / 1000  {engine_file}"]
    assert list(function_list(each)) == ["fused, tgi", "   4999  b/c.py  C.g", "      1  a.py  f"]


@pytest.mark.slow
def test_a_request_executes_the_same_files_each_time() -> None:
    arguments = ("--runner", RUNNERS[0], "--dialect", "openai-chat", "openai-chat", "--json")
    command = [sys.executable, "-m", "scripts.hot_path", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280)
    first, second = json.loads(result.stdout)
    assert {
        "api/openai/chat_writer.py",
        "inference/engine/scheduling/scheduler.py",
        "inference/local/backend.py",
    } <= set(first["files"])
    assert abs(len(first["files"]) - len(second["files"])) <= 3
    assert second["num_calls"] == pytest.approx(first["num_calls"], rel=0.05)
    assert 0 < first["num_executed"] < first["num_lines"]
