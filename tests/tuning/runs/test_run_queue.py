"""The order of a run's requests: by seq_id, each once, and no gap that lasts for ever."""

from random import Random

import pytest

from inference.errors import BadRequest
from tuning.runs import run_queue
from tuning.runs.run_queue import RunQueue
from tuning.runs.types import Failure, RejectedRequest, StepOutcome

REQUEST = RejectedRequest(message="x")
DONE = StepOutcome(metrics={})


def take_all(queue: RunQueue) -> list[int]:
    order = []
    while queue.is_ready:
        queued = queue.take()
        queued.promise.resolve(DONE)
        order.append(queued.seq_id)
    return order


@pytest.mark.parametrize("seed", range(20))
def test_requests_run_in_order_and_once_however_they_arrive(seed: int) -> None:
    random, queue, order = Random(seed), RunQueue("run"), []
    arrivals = [seq_id for seq_id in range(1, 51) for _ in range(random.choice((1, 1, 2)))]
    random.shuffle(arrivals)
    promises = {}
    for seq_id in arrivals:
        promise = queue.add(seq_id, REQUEST)
        assert promises.setdefault(seq_id, promise) is promise
        if random.random() < 0.3:
            order += take_all(queue)
    assert order + take_all(queue) == list(range(1, 51))
    assert all(promise.result() is DONE for promise in promises.values())


def test_a_gap_fails_what_waits_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RunQueue("run")
    waiting = [queue.add(seq_id, REQUEST) for seq_id in (3, 2)]
    queue.fail_gap()
    assert not any(promise.is_resolved for promise in waiting)
    monkeypatch.setattr(run_queue, "GAP_S", 0.0)
    queue.fail_gap()
    for promise in waiting:
        failure = promise.result()
        assert isinstance(failure, Failure) and "seq_id 1 has not arrived" in failure.message
    queue.add(4, REQUEST)
    assert take_all(queue) == [4]
    late = queue.add(1, REQUEST).result()
    assert isinstance(late, Failure) and late.category == "user" and "is over" in late.message


def test_a_request_beyond_those_in_flight_is_refused() -> None:
    queue = RunQueue("run")
    queue.add(run_queue.MAX_IN_FLIGHT, REQUEST)
    with pytest.raises(BadRequest, match="seq_id must be below 100001: the run is at 1, got 100001"):
        queue.add(run_queue.MAX_IN_FLIGHT + 1, REQUEST)


def test_a_lost_request_uses_up_its_number_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = RunQueue("run", 3, is_restored=True)
    lost = queue.add_lost(9).result()
    assert isinstance(lost, Failure) and lost.category == "server"
    monkeypatch.setattr(run_queue, "GAP_S", 0.0)
    queue.fail_gap()
    for seq_id in range(3, 9):
        assert not queue.add(seq_id, REQUEST).is_resolved
    assert take_all(queue) == list(range(3, 10))
    queue.add_lost(11)
    waiting = queue.add(10 + 2, REQUEST)
    queue.add_lost(20)
    queue.fail_gap()
    assert isinstance(waiting.result(), Failure) and queue.next_seq_id == 13


def test_a_result_stays_until_it_was_fetched_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RunQueue("run")
    promise = queue.add(1, REQUEST)
    take_all(queue)
    queue.remove_expired()
    assert queue.add(1, REQUEST) is promise
    monkeypatch.setattr("tuning.runs.promise.FETCHED_S", -1.0)
    assert promise.result() is DONE
    queue.remove_expired()
    assert not queue.promises
