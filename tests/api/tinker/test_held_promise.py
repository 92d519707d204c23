"""Polls that wait: they occupy no worker thread, and end with a result or with try_again."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from api.server.asgi_bridge import NUM_WORKERS
from api.tinker.errors import TryAgain
from api.tinker.held_promise import Resolved, WaitablePromise, WaitStream
from settings.groups import ServerSettings
from tests.api.tinker.scripted_runs import RUN, ScriptedRuns, service_of
from tests.clients.conftest import running
from tests.fakes.fake_backend import FakeBackend
from tests.timeouts import TIMEOUT_S
from tuning.runs.promise import Promise
from tuning.runs.types import RunCreated


def test_a_poll_without_a_result_ends_with_try_again() -> None:
    with pytest.raises(TryAgain):
        next(WaitStream(WaitablePromise(Promise("p")), hold_s=0.01))


def test_a_poll_gets_the_result_that_comes_while_it_waits() -> None:
    promise: Promise[str] = Promise("p")
    threading.Timer(0.05, promise.resolve, ("result",)).start()
    event = next(WaitStream(WaitablePromise(promise), hold_s=TIMEOUT_S))
    assert isinstance(event, Resolved) and event.result == "result"


def test_more_polls_wait_than_there_are_worker_threads() -> None:
    runs, num_polls = ScriptedRuns(), 3 * NUM_WORKERS
    promise = runs.promise_of(f"{RUN}:0")
    with (
        running(FakeBackend(), ServerSettings(), tuning=service_of(runs)) as url,
        ThreadPoolExecutor(num_polls) as pool,
    ):
        body = {"request_id": promise.request_id}
        polls = [
            pool.submit(requests.post, f"{url}/api/v1/retrieve_future", json=body) for _ in range(num_polls)
        ]
        time.sleep(0.3)
        assert requests.get(f"{url}/api/v1/healthz", timeout=TIMEOUT_S).json() == {"status": "ok"}
        assert not any(poll.done() for poll in polls)
        promise.resolve(RunCreated(run_id=RUN))
        assert {poll.result(TIMEOUT_S).json()["model_id"] for poll in polls} == {RUN}


def test_a_shutdown_does_not_wait_for_polls() -> None:
    runs = ScriptedRuns()
    promise = runs.promise_of(f"{RUN}:0")
    with ThreadPoolExecutor(1) as pool:
        with running(
            FakeBackend(), ServerSettings(), tuning=service_of(runs), drain_seconds=2 * TIMEOUT_S
        ) as url:
            body = {"request_id": promise.request_id}
            poll = pool.submit(requests.post, f"{url}/api/v1/retrieve_future", json=body)
            time.sleep(0.3)
            start = time.monotonic()
        assert time.monotonic() - start < TIMEOUT_S
        assert poll.result(TIMEOUT_S).status_code == 503
