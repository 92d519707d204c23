"""The order of a run's requests: by seq_id, each once, and no gap that lasts for ever."""

from random import Random

import numpy as np
import pytest

from inference.errors import BadRequest, Overloaded
from tuning.runs import run_queue
from tuning.runs.run_queue import DATUM_BYTES, RESULT_BYTES, RunQueue, limit_results, refuse_when_full
from tuning.runs.types import (
    Failure,
    ForwardBackward,
    PassOutput,
    RejectedRequest,
    RunResult,
    SaveWeights,
    StepOutcome,
)
from tuning.trainer.datum import Datum

REQUEST = RejectedRequest(message="x")
DONE = StepOutcome(metrics={})


def take_all(queue: RunQueue, result: RunResult = DONE) -> list[int]:
    order = []
    while queue.is_ready:
        queued = queue.take()
        queue.resolve(queued.seq_id, queued.promise, result)
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


def test_the_run_whose_results_take_most_loses_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_queue, "MAX_RESULT_BYTES", 5 * RESULT_BYTES + 100_000)
    small, large = RunQueue("small"), RunQueue("large")
    output = PassOutput(logprobs=[np.zeros(10_000, np.float32)] * 2, metrics={})
    for queue, count, result in ((small, 3, DONE), (large, 4, output)):
        for seq_id in range(1, count + 1):
            queue.add(seq_id, REQUEST)
        take_all(queue, result)
    limit_results([small, large])
    assert list(small.promises) == [1, 2, 3] and list(large.promises) == [4]
    assert 80_000 < large.result_bytes < 80_000 + 2 * RESULT_BYTES
    monkeypatch.setattr(run_queue, "MAX_RESULT_BYTES", 0)
    limit_results([small, large])
    assert not small.promises and not large.promises and not small.result_bytes + large.result_bytes


def make_pass(num_bytes: int) -> ForwardBackward:
    tokens = np.zeros((num_bytes - DATUM_BYTES) // 16, np.int64)
    return ForwardBackward(data=[Datum(tokens, tokens)], loss_fn="cross_entropy")


def test_requests_behind_a_missing_one_take_limited_memory() -> None:
    queue = RunQueue("run")
    waiting = [queue.add(seq_id, make_pass(1600), max_gap_bytes=4000) for seq_id in (4, 3, 2, 5)]
    assert queue.gap_bytes == 3200
    queue.add(1, make_pass(4800), max_gap_bytes=4000)  # it waits for none
    queue.add(6, make_pass(4800), max_gap_bytes=4000)
    assert queue.gap_bytes == 0
    requests = []
    while queue.is_ready:
        requests.append(queue.take().request)
    refused = [each for each in requests if isinstance(each, RejectedRequest)]
    message = "4.8 kB would wait for seq_id 1, at most 4.0 kB may: send it first"
    assert requests[1:3] != refused == [RejectedRequest(message=message)] * 2
    assert len(requests) == 6 and not any(promise.is_resolved for promise in waiting)


def test_a_full_server_takes_retries_and_the_next_request_of_each_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_queue, "MAX_WAITING_BYTES", 4000)
    queues = [RunQueue("a"), RunQueue("b")]
    for seq_id in (1, 2):
        refuse_when_full(queues, queues[0], seq_id)
        queues[0].add(seq_id, make_pass(2400))
    for full, seq_id in ((queues[0], 2), (queues[1], 1)):
        refuse_when_full(queues, full, seq_id)
    for full, seq_id in ((queues[0], 3), (queues[1], 2)):
        with pytest.raises(Overloaded):
            refuse_when_full(queues, full, seq_id)
    take_all(queues[0])
    refuse_when_full(queues, queues[0], 4)


def test_a_long_text_behind_a_missing_request_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RunQueue("run")
    queue.add(2, SaveWeights(name="a", user_metadata={"key": "x" * 5000}), max_gap_bytes=4000)
    assert queue.gap_bytes == 0
    queue.add(3, SaveWeights(name="a", user_metadata={"key": "x" * 3000}), max_gap_bytes=4000)
    assert 3000 < queue.gap_bytes < 4000
    monkeypatch.setattr(run_queue, "GAP_S", 0.0)
    queue.fail_gap()
    assert queue.gap_bytes == 0 and queue.missing_seq_id == 4
