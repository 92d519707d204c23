"""What stays of runs after a stop, a kill, the death of the trainer, and a pause without memory."""

import shutil
import time
from pathlib import Path

import pytest

from inference.errors import NotFound
from tests.tuning.runs.conftest import RunClient, RunServers, wait_for
from tests.tuning.runs.passes import FORWARD, PASS, STEP, loss
from tuning.runs import clean_up
from tuning.runs.run_queue import MAX_IN_FLIGHT
from tuning.runs.types import Failure, PassOutput, RunRequest, SaveForSampler, SaveWeights

REQUESTS: tuple[RunRequest, ...] = (PASS, STEP, PASS, PASS, STEP, FORWARD)


def losses_of(results: list[object]) -> list[float]:
    return [loss(result) for result in results if isinstance(result, PassOutput)]


def expected_losses(client: RunClient, number: int) -> list[float]:
    run_id = client.create_run(number)
    return losses_of([client.call(run_id, request) for request in REQUESTS])


def test_clients_go_on_after_a_stop(servers: RunServers) -> None:
    client = RunClient(servers.open())
    expected = expected_losses(client, 0)
    run_id = client.create_run(1)
    promises = [client.send(run_id, request) for request in REQUESTS]
    saved = client.runs.create_run(client.session_id, 2, client.runs.run(run_id).options)
    servers.close()
    runs = servers.open()
    results = [client.expect(runs.promise(promise.request_id)) for promise in promises]
    assert losses_of(results) == expected
    assert client.expect(runs.promise(saved.request_id)).run_id.endswith(":train:2")
    runs.heartbeat(client.session_id)


@pytest.mark.parametrize("stop_after", range(1, 6))
def test_a_stop_between_any_two_requests_changes_nothing(servers: RunServers, stop_after: int) -> None:
    client = RunClient(servers.open())
    run_id = client.create_run()
    before = [client.call(run_id, request) for request in REQUESTS[:stop_after]]
    servers.close()
    client.runs = servers.open()
    after = [client.call(run_id, request) for request in REQUESTS[stop_after:]]
    assert losses_of([*before, *after]) == expected_losses(client, 1)


def test_a_stop_interrupts_a_pass_which_is_computed_after_the_next_start(servers: RunServers) -> None:
    client = RunClient(servers.open())
    expected = expected_losses(client, 0)
    run_id = client.create_run(1)
    before = [client.call(run_id, request) for request in REQUESTS[:3]]
    servers.trainers[0].is_waiting = True
    promises = [client.send(run_id, request) for request in REQUESTS[3:]]
    while not servers.trainers[0].is_computing:
        time.sleep(0.01)
    servers.close()
    runs = servers.open()
    after = [client.expect(runs.promise(promise.request_id)) for promise in promises]
    assert losses_of([*before, *after]) == expected


def test_after_a_kill_changed_runs_are_corrupted_and_others_go_on(
    servers: RunServers, tmp_path: Path
) -> None:
    client = RunClient(servers.open())
    new, saved, changed = (client.create_run(number) for number in range(3))
    for run_id in (saved, changed):
        for request in (PASS, STEP, SaveWeights(name="one"), SaveForSampler(name="s")):
            client.call(run_id, request)
    client.call(changed, PASS)
    expected = [loss(client.call(run_id, FORWARD)) for run_id in (new, saved)]
    shutil.copytree(servers.folder, tmp_path / "killed")  # the disk as a kill leaves it
    servers.adapters.loaded.clear()
    client.runs = servers.open(tmp_path / "killed")
    assert [loss(client.call(run_id, FORWARD)) for run_id in (new, saved)] == expected
    assert [client.runs.run(run_id).is_corrupted for run_id in (new, saved, changed)] == [False, False, True]
    failure = client.fail(changed, STEP)
    assert failure.category == "server" and f"tinker://{changed}/weights/one" in failure.message
    assert f"tinker://{changed}/sampler_weights/s" in servers.adapters.loaded


def test_a_request_that_died_with_the_server_fails_and_uses_up_its_number(
    servers: RunServers, tmp_path: Path
) -> None:
    client = RunClient(servers.open())
    run_id = client.create_run()
    client.call(run_id, FORWARD)
    shutil.copytree(servers.folder, tmp_path / "killed")
    runs = servers.open(tmp_path / "killed")
    with pytest.raises(NotFound):
        runs.promise(f"{run_id}:{MAX_IN_FLIGHT + 2}")
    for seq_id in (1, 3, 2):
        failure = wait_for(runs.promise(f"{run_id}:{seq_id}"))
        assert isinstance(failure, Failure) and failure.category == "server"
    client.expect(runs.submit(run_id, 4, FORWARD))
    assert isinstance(wait_for(runs.promise(f"{run_id}:6")), Failure)
    runs.close()
    runs = servers.open(tmp_path / "killed")
    assert isinstance(wait_for(runs.promise(f"{run_id}:6")), Failure)
    client.expect(runs.submit(run_id, 5, FORWARD))
    client.expect(runs.submit(run_id, 7, FORWARD))


def test_a_dead_trainer_fails_its_request_and_the_next_one_starts_another(servers: RunServers) -> None:
    client = RunClient(servers.open())
    new, changed = client.create_run(0), client.create_run(1)
    client.call(changed, PASS)
    servers.trainers[0].dies_at = "forward_backward"
    assert "died" in client.fail(new, FORWARD).message
    client.call(new, FORWARD)
    assert "create it again" in client.fail(changed, STEP).message
    assert len(servers.trainers) == 2


def test_parked_runs_compute_the_same(servers: RunServers) -> None:
    client = RunClient(servers.open(max_runs=1))
    expected = expected_losses(client, 0)
    run_ids = [client.create_run(number) for number in (1, 2, 3)]
    rounds = [[client.call(run_id, request) for run_id in run_ids] for request in REQUESTS]
    assert all(losses_of(list(results)) == expected for results in zip(*rounds, strict=True))


def test_a_finished_session_frees_its_snapshots_and_a_silent_one_its_memory(
    servers: RunServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = servers.open()
    client, other = RunClient(runs), RunClient(runs)
    run_id, other_id = client.create_run(), other.create_run()
    for each, id in ((client, run_id), (other, other_id)):
        each.call(id, PASS)
    snapshot = client.call(run_id, SaveForSampler(sampler_seq=0)).sampler_id
    monkeypatch.setattr(clean_up, "SILENT_S", -1.0)
    runs._clean_up.run()
    assert runs.run(other_id).state == "disk"
    runs.finish(client.session_id)
    other.call(other_id, FORWARD)
    assert snapshot not in servers.adapters.loaded and not runs.samplers(client.session_id)
    assert runs.run(run_id).state == "disk"
