"""What this machine has shown is kept, used by the next prediction, and never believed blindly."""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.machine.overhead import FIRST, LAST, MACHINES, known, learn
from inference.native import prepared
from inference.native.prepared import Room
from inference.resident import resident


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "memory.json"


def test_nothing_seen_is_the_first_guess_and_the_program_as_it_is(file: Path) -> None:
    overhead = known("cpu", file)
    assert (overhead.later, overhead.step) == (FIRST.later, FIRST.step)
    assert abs(overhead.program - resident().all) < 50_000_000
    assert 0 < overhead.own <= overhead.program


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no memory is made ready ahead")
def test_memory_that_waits_for_weights_is_ours_and_not_the_programs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, before = 64 << 20, known("cpu", file)
    made = Room(size)
    made.fill(size, threading.Event())
    monkeypatch.setattr(prepared, "_rooms", [made])
    now = known("cpu", file)
    made.close()
    assert (before.ahead, now.ahead) == (0, size)
    assert abs(now.program - before.program) < size / 4
    assert now.own - before.own > size * 3 / 4


def test_what_was_seen_is_used_and_one_odd_value_is_not(file: Path) -> None:
    for later in (50e6, 52e6, 900e6):
        learn("cpu", {"later": later, "step": 1.5}, file)
    assert (known("cpu", file).later, known("cpu", file).step) == (52_000_000, 1.5)
    assert known("another", file).later == FIRST.later


def test_the_file_stays_small(file: Path) -> None:
    for number in range(MACHINES + 5):
        for _ in range(LAST + 2):
            learn(f"device {number}", {"later": 1e6}, file)
    kept = json.loads(file.read_text())
    assert len(kept) == MACHINES and all(len(seen["later"]) == LAST for seen in kept.values())
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"a": 1}',
        b"\xff\xfe",
        '{"KEY": {"later": "much"}}',
        '{"KEY": {"later": [NaN, -1, "x", 1e99]}}',
        '{"KEY": {"later": [Infinity, -Infinity, 1e999, %s]}}' % ("9" * 400),
        "[" * 200_000,
        '{"KEY":' * 100_000,
        '{"KEY": {"later": [1e8%s]}}' % (", 1e8" * 500_000),
    ],
)
def test_a_damaged_file_is_as_good_as_none(file: Path, damage: str | bytes) -> None:
    learn("cpu", {"later": 5e6}, file)
    [name] = json.loads(file.read_text())
    file.write_bytes(damage if isinstance(damage, bytes) else damage.replace("KEY", name).encode())
    assert known("cpu", file).later == FIRST.later
    learn("cpu", {"later": 7e6}, file)
    assert known("cpu", file).later == 7_000_000


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_waited_for(file: Path, make: Callable[[Path], None]) -> None:
    file.parent.mkdir()
    make(file)
    assert known("cpu", file).later == FIRST.later
    learn("cpu", {"later": 7e6}, file)
    assert known("cpu", file).later in (7_000_000, FIRST.later)  # what is a folder cannot be replaced


def test_of_another_machine_nothing_is_used(file: Path) -> None:
    learn("cpu", {"later": 5e6, "step": 2.0}, file)
    [(name, seen)] = json.loads(file.read_text()).items()
    for own, other in (("torch 2", "torch 1"), ("transformers 5", "transformers 4"), ("cpu", "cuda")):
        file.write_text(json.dumps({name.replace(own, other): seen}))
        assert (known("cpu", file).later, known("cpu", file).step) == (FIRST.later, FIRST.step), other


def test_what_cannot_be_true_is_not_kept(file: Path) -> None:
    learn("cpu", {"later": -5.0, "step": float("nan")}, file)
    assert known("cpu", file).later == FIRST.later and known("cpu", file).step == FIRST.step


def test_where_nothing_can_be_kept_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, no folder")
    learn("cpu", {"later": 5e6}, tmp_path / "cache" / "memory.json")
