"""Runs are refused, parked or computed in smaller micro-batches as the memory plan says."""

from dataclasses import replace

import pytest

from inference.errors import NotFound
from tests.tuning.runs.conftest import RunClient, RunServers, make_options, wait_for
from tests.tuning.runs.passes import FORWARD, PASS, loss
from tuning.runs.memory import PASS_TOKENS, RunMemory, RunPlan, describe_shortage
from tuning.runs.types import Failure, ForwardBackward
from tuning.trainer.datum import Datum

PLAN = RunPlan(fixed=1000, run=100, steps=(256, 4096))


@pytest.mark.parametrize(("spare_bytes", "expected"), [(10**6, 4096), (4095, 2048), (256, 256), (255, 0)])
def test_a_micro_batch_is_the_largest_that_fits(spare_bytes: int, expected: int) -> None:
    assert RunMemory(lambda: 0).pass_tokens(PLAN, spare_bytes) == expected


def test_what_the_trainer_has_already_counts_as_free() -> None:
    assert RunMemory(lambda: 500).spare_bytes(PLAN, run_bytes=200, resident_bytes=1100) == 400


def test_a_shortage_of_several_processes_says_what_each_lacks() -> None:
    text = describe_shortage(replace(PLAN, num_processes=2), 500, 256)
    assert text.startswith("needs 2 x ") and "; beside serving there is 2 x " in text


def test_a_run_beyond_the_plan_is_refused_with_need_and_have_before_anything_is_made(
    servers: RunServers,
) -> None:
    client = RunClient(servers.open(free_bytes=lambda: 1_000_000))
    failure = wait_for(client.runs.create_run(client.session_id, 0, make_options()))
    assert isinstance(failure, Failure) and failure.category == "user"
    assert "lora_config needs 38" in failure.message and "beside serving there is 1.0 MB" in failure.message
    with pytest.raises(NotFound):
        client.runs.run(f"{client.session_id}:train:0")
    assert [path.name for path in (servers.folder / "runs").iterdir()] == []


def test_idle_runs_are_parked_for_a_new_one(servers: RunServers) -> None:
    plan = planned(servers)
    free_bytes = plan.fixed + 3 * plan.run // 2 + plan.step(PASS_TOKENS[-1])
    client = RunClient(servers.open(free_bytes=lambda: free_bytes))
    first, second = client.create_run(0), client.create_run(1)
    client.call(first, PASS)
    client.call(second, PASS)
    assert [client.runs.run(run_id).state for run_id in (first, second)] == ["disk", "memory"]
    long_ids = list(range(1, 51)) * 6
    failure = client.fail(second, ForwardBackward(data=[Datum(long_ids, long_ids)], loss_fn="cross_entropy"))
    assert "a pass of 300 tokens" in failure.message and "send shorter data" in failure.message
    assert loss(client.call(first, FORWARD)) == loss(client.call(second, FORWARD))


def planned(servers: RunServers) -> RunPlan:
    """The plan of a run with make_options' adapter."""
    client = RunClient(servers.open())
    run_id = client.create_run()
    plan = client.runs._residents._residents[run_id].plan
    servers.close()
    return plan
