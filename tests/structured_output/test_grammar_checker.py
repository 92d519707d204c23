"""What a grammar costs is found out in a process that may not take more than its share."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inference.errors import Overloaded
from inference.structured_output import grammar_checker
from inference.structured_output.grammar_checker import (
    MAX_S,
    NICENESS,
    CheckAbandoned,
    GrammarChecker,
    GrammarTooCostly,
)
from inference.structured_output.grammars import to_grammar
from inference.types import Constraint
from tests.structured_output.costly_schemas import combined_patterns


@pytest.fixture
def checker() -> Iterator[GrammarChecker]:
    children_before = set(psutil.Process().children())
    checker = GrammarChecker()
    yield checker
    checker.close()
    assert set(psutil.Process().children()) <= children_before, "a process is left, or its exit status"


def processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "check_process.py" in command_of(child)]


def command_of(process: psutil.Process) -> str:
    """Its command line; "" if it is a zombie: another test may not have waited for its child."""
    try:
        return str(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return ""


def grammar(num_patterns: int) -> str:
    return to_grammar(Constraint("json_schema", combined_patterns(num_patterns)))


def never() -> bool:
    return False


def test_cheap_grammars_are_checked_by_one_process(checker: GrammarChecker) -> None:
    assert not processes()
    assert all(checker.check(grammar(1), never) < MAX_S / 10 for _ in range(3))
    assert len(processes()) == 1


def test_the_process_leaves_the_cores_to_the_server(checker: GrammarChecker) -> None:
    checker.check(grammar(1), never)
    assert [each.nice() for each in processes()] == [psutil.Process().nice() + NICENESS]


def test_a_machine_too_busy_to_tell_is_not_the_grammars_fault(
    checker: GrammarChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.structured_output.grammar_checker.MAX_WALL_S", 0.0)
    with pytest.raises(Overloaded):
        checker.check(grammar(20), never)


def test_a_grammar_that_takes_too_long_is_refused_and_others_are_checked_after_it(
    checker: GrammarChecker,
) -> None:
    with pytest.raises(GrammarTooCostly, match=rf"more than {MAX_S:g} s to compile \(\d+\.\d s so far\)"):
        checker.check(grammar(24), never)
    assert not processes()
    assert checker.check(grammar(1), never) < MAX_S


def test_a_grammar_that_takes_too_much_memory_is_refused(
    checker: GrammarChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_checker, "MAX_BYTES", 16 << 20)
    with pytest.raises(GrammarTooCostly, match="more than 16 MB"):
        checker.check(grammar(24), never)
    assert checker.check(grammar(1), never) < MAX_S


def test_memory_is_watched_where_the_system_does_not_limit_it(
    checker: GrammarChecker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "check_process.py"
    script.write_text("import sys, time; sys.stdin.readline(); memory = b'x' * (90 << 20); time.sleep(60)")
    monkeypatch.setattr(grammar_checker, "SCRIPT", script)
    monkeypatch.setattr(grammar_checker, "MAX_BYTES", 16 << 20)
    with pytest.raises(GrammarTooCostly, match="more than 16 MB"):
        checker.check(grammar(1), never)


def test_a_check_ends_when_its_request_is_cancelled(checker: GrammarChecker) -> None:
    checker.check(grammar(1), never)
    end = time.monotonic() + 0.1
    with pytest.raises(CheckAbandoned):
        checker.check(grammar(24), lambda: time.monotonic() > end)
    assert not processes()


@pytest.mark.system("posix")
def test_a_zombie_of_another_test_is_no_process_of_the_checker(
    checker: GrammarChecker,
) -> None:
    checker.check(grammar(1), never)
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert len(processes()) == 1


def test_an_invalid_grammar_has_an_error(checker: GrammarChecker) -> None:
    with pytest.raises(ValueError, match="unbounded"):
        checker.check(to_grammar(Constraint("json_schema", {"type": "unbounded"})), never)
    assert checker.check(grammar(1), never) < MAX_S


def test_a_process_that_cannot_start_is_no_fault_of_the_grammar(
    checker: GrammarChecker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "check_process.py"
    script.write_text("import no_such_package")
    monkeypatch.setattr(grammar_checker, "SCRIPT", script)
    with pytest.raises(RuntimeError, match="exit code 1"):
        checker.check(grammar(1), never)
    monkeypatch.undo()
    assert checker.check(grammar(1), never) < MAX_S


def test_a_process_that_something_else_has_ended_is_replaced(checker: GrammarChecker) -> None:
    checker.check(grammar(1), never)
    [process] = processes()
    process.kill()
    process.wait()
    assert checker.check(grammar(1), never) < MAX_S
