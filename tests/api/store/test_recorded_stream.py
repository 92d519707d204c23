"""The last events of a recorded stream arrive after they are saved, or after saving has failed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from api.store.recorded_stream import RecordedStream
from inference.database import StoreFailed
from inference.errors import Unavailable
from inference.events import Event, Finished
from tests.fakes.fake_backend import FakeBackend, FakeStream, Script, say

Deliveries = list[Any]
SAVE_TIMEOUT_S = 0.05


def failure(error: Exception) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(error)
    return future


def success() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


class Recording:
    """A recorded stream over a script, with what it did.

    saved     the events of each call of `save`
    failures  calls of `on_failure`
    """

    def __init__(self, script: Script, save: Callable[[], Future[None]], num_answers: int = 1) -> None:
        self.saved: list[list[Event]] = []
        self.failures = 0
        self.received: Deliveries = []
        self._save = save
        self.stream = RecordedStream(
            FakeStream(FakeBackend(), script), num_answers, self.save, self.count_failure, SAVE_TIMEOUT_S
        )

    def save(self, events: list[Event]) -> Future[None]:
        self.saved.append(list(events))
        return self._save()

    def count_failure(self) -> None:
        self.failures += 1

    def deliver(self, after: Callable[[], None] = lambda: None) -> None:
        """Run the stream on an event loop, step by step; call `after` when all steps have arrived."""

        async def run() -> None:
            loop = asyncio.get_running_loop()
            self.stream._stream.start = lambda sink: [  # type: ignore[method-assign]
                sink(step if isinstance(step, Unavailable) else [step])
                for step in list(self.stream._stream.script_steps)  # type: ignore[attr-defined]
            ]
            self.stream.start(self.received.append)
            await asyncio.sleep(0.02)
            loop.call_soon(after)
            await asyncio.sleep(0.05)

        asyncio.run(run())


HELLO = say("Hello", " world")


def test_an_iterated_stream_saves_before_its_last_event() -> None:
    recording = Recording(HELLO, success)
    for event in recording.stream:
        assert bool(recording.saved) == isinstance(event, Finished)
    assert recording.saved == [HELLO] and not recording.failures


@pytest.mark.parametrize("error", [StoreFailed("the store", "full"), KeyError("a bug")])
def test_an_answer_that_cannot_be_saved_is_passed_on(error: Exception) -> None:
    iterated, delivered = Recording(HELLO, lambda: failure(error)), Recording(HELLO, lambda: failure(error))
    assert list(iterated.stream) == HELLO and iterated.failures == 1
    delivered.deliver()
    assert delivered.received == [[event] for event in HELLO] and delivered.failures == 1


def test_the_last_events_wait_until_they_are_saved() -> None:
    future: Future[None] = Future()
    recording = Recording(HELLO, lambda: future)
    before_saving: Deliveries = []

    def finish_saving() -> None:
        before_saving.extend(recording.received)
        future.set_result(None)

    recording.deliver(finish_saving)
    assert before_saving == [[event] for event in HELLO[:-1]]
    assert recording.received == [[event] for event in HELLO] and not recording.failures


def test_an_answer_does_not_wait_for_a_slow_disk() -> None:
    iterated, delivered = Recording(HELLO, Future), Recording(HELLO, Future)
    assert list(iterated.stream) == HELLO and iterated.failures == 1
    delivered.deliver()
    assert delivered.received[-1] == [HELLO[-1]] and delivered.failures == 1


def test_several_answers_are_saved_once() -> None:
    script = say("a") + say("b", index=1)
    recording = Recording(script, success, num_answers=2)
    assert list(recording.stream) == script and recording.saved == [script]


def test_an_error_is_passed_on_and_nothing_is_saved() -> None:
    error = Unavailable("stopping")
    recording = Recording([*HELLO[:-1], error], success)
    recording.deliver()
    assert recording.received[-1] is error and recording.saved == []


def test_closing_closes_the_stream() -> None:
    recording = Recording(HELLO, success)
    recording.stream.close()
    assert recording.stream._stream.closed_at  # type: ignore[attr-defined]
