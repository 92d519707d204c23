"""Polls that wait: they occupy no worker thread, and end with a result or with try_again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from api.server.asgi_bridge import NUM_WORKERS
from api.tinker.errors import TryAgain
from api.tinker.held_promise import Resolved, WaitablePromise, WaitStream
from tests.api.conftest import served
from tests.api.tinker.scripted_runs import RUN, ScriptedRuns, service_of
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
    with served(FakeBackend(), tuning=service_of(runs)) as server, ThreadPoolExecutor(num_polls) as pool:
        url, body = server.http_server.url, {"request_id": promise.request_id}
        polls = [
            pool.submit(requests.post, f"{url}/api/v1/retrieve_future", json=body) for _ in range(num_polls)
        ]
        server.until(lambda: len(server.http_server.bridge.senders) == num_polls)
        assert requests.get(f"{url}/api/v1/healthz", timeout=TIMEOUT_S).json() == {"status": "ok"}
        assert not any(poll.done() for poll in polls)
        promise.resolve(RunCreated(run_id=RUN))
        assert {poll.result(TIMEOUT_S).json()["model_id"] for poll in polls} == {RUN}


def test_a_shutdown_does_not_wait_for_polls() -> None:
    runs = ScriptedRuns()
    promise = runs.promise_of(f"{RUN}:0")
    with ThreadPoolExecutor(1) as pool:
        with served(FakeBackend(), drain_s=10 * TIMEOUT_S, tuning=service_of(runs)) as server:
            url, body = server.http_server.url, {"request_id": promise.request_id}
            poll = pool.submit(requests.post, f"{url}/api/v1/retrieve_future", json=body)
            server.until(lambda: server.http_server.bridge.senders)
        # `served` asserts that it stops within TIMEOUT_S, of which the drain has ten.
        assert poll.result(TIMEOUT_S).status_code == 503


def test_a_shutdown_does_not_wait_for_a_poll_that_begins_meanwhile() -> None:
    runs, may_run = ScriptedRuns(), threading.Event()
    promise = runs.promise_of(f"{RUN}:0")
    with ThreadPoolExecutor(1) as pool:
        with served(FakeBackend(), drain_s=10 * TIMEOUT_S, tuning=service_of(runs)) as server:
            bridge = server.http_server.bridge
            app = bridge.app
            bridge.app = lambda environ, start: may_run.wait(TIMEOUT_S) and app(environ, start)
            url, body = server.http_server.url, {"request_id": promise.request_id}
            poll = pool.submit(requests.post, f"{url}/api/v1/retrieve_future", json=body)
            server.until(lambda: bridge.running)
            server.http_server.stop()
            server.until(lambda: bridge.drain_deadline)
            may_run.set()
        assert poll.result(TIMEOUT_S).status_code == 503
