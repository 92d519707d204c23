"""A full disk under training runs: a save fails in words, and a run that cannot be parked harms no other."""

import errno
import os

import pytest

from tests.tuning.jobs.failing_once import failing_once
from tests.tuning.runs.conftest import RunClient, RunServers
from tests.tuning.runs.passes import PASS
from tuning.runs.types import SaveWeights
from tuning.trainer import server
from tuning.trainer.trainer import Trainer

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_save_without_room_says_so_and_leaves_no_files(
    servers: RunServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = RunClient(servers.open())
    run_id = client.create_run()
    monkeypatch.setattr(Trainer, "save", failing_once(Trainer.save, [], FULL))
    failure = client.fail(run_id, SaveWeights(name="a"))
    assert failure.category == "server" and "the disk of TUNING_DIR is full: free some" in failure.message
    assert not list((servers.folder / "runs" / client.runs.run(run_id).folder).iterdir())
    client.call(run_id, SaveWeights(name="a"))


def test_a_run_that_cannot_be_parked_at_the_stop_is_lost_alone(
    servers: RunServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = RunClient(servers.open())
    run_ids = [client.create_run(number) for number in range(2)]
    for run_id in run_ids:
        client.call(run_id, PASS)
    monkeypatch.setattr(server, "save_run_state", failing_once(server.save_run_state, [], FULL))
    servers.close()
    runs = servers.open()
    assert [runs.run(run_id).is_corrupted for run_id in run_ids] == [True, False]
