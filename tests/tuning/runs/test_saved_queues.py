"""What a stopped server has kept of its queues, after a power cut."""

from pathlib import Path

import numpy as np
import pytest

from tuning.runs.run_queue import RunQueue
from tuning.runs.saved_queues import restore_queues, save_queues
from tuning.runs.types import ForwardBackward, OptimStep
from tuning.trainer.datum import Datum
from tuning.trainer.optimizers import AdamParams

STEP = OptimStep(params=AdamParams(learning_rate=0.1))


def saved_bytes(file: Path) -> bytes:
    """The file of a run with a pass and a step that have not begun."""
    queue, tokens = RunQueue("run"), np.arange(3)
    queue.add(1, STEP)
    queue.add(2, ForwardBackward(data=[Datum(tokens, tokens)], loss_fn="cross_entropy"))
    save_queues(file, [queue])
    return file.read_bytes()


def restored(file: Path, content: bytes) -> dict[str, RunQueue]:
    file.write_bytes(content)
    queues: dict[str, RunQueue] = {}
    restore_queues(file, queues)
    assert not file.exists(), "the next start does not read it again"
    return queues


def test_what_comes_before_the_damage_is_restored(tmp_path: Path) -> None:
    content = saved_bytes(tmp_path / "queues.bin")
    assert restored(tmp_path / "queues.bin", content)["run"].waiting.keys() == {1, 2}
    queues = restored(tmp_path / "queues.bin", content[:-5])
    assert {seq_id: each.request for seq_id, each in queues["run"].waiting.items()} == {1: STEP}


@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"{"])
def test_a_damaged_file_does_not_stop_the_start(
    tmp_path: Path, fill: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert restored(tmp_path / "queues.bin", fill * 500) == {}
    assert "queues.bin is damaged" in caplog.text


def test_no_changed_byte_stops_the_start(tmp_path: Path) -> None:
    content = saved_bytes(tmp_path / "queues.bin")
    for index in range(0, len(content), 3):
        restored(tmp_path / "queues.bin", content[:index] + b"\x80" + content[index + 1 :])
