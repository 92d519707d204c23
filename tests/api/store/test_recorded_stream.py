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
from tests.timeouts import TIMEOUT_S

Deliveries = list[Any]
SLOW_S = 0.05


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

    def __init__(
        self,
        script: Script,
        save: Callable[[], Future[None]],
        num_answers: int = 1,
        save_timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.saved: list[list[Event]] = []
        self.failures = 0
        self.received: Deliveries = []
        self._save = save
        self.stream = RecordedStream(
            FakeStream(FakeBackend(), script), num_answers, self.save, self.count_failure, save_timeout_s
        )

    def save(self, events: list[Event]) -> Future[None]:
        self.saved.append(list(events))
        return self._save()

    @property
    def has_ended(self) -> bool:
        last = self.received[-1] if self.received else None
        return isinstance(last, Unavailable) or (last is not None and isinstance(last[-1], Finished))

    def count_failure(self) -> None:
        self.failures += 1

    def deliver(self, after: Callable[[], None] = lambda: None) -> None:
        """Run the stream on an event loop, step by step, to its end; call `after` when the answer is being
        saved.
        """

        async def run() -> None:
            self.stream._stream.start = lambda sink: [  # type: ignore[method-assign]
                sink(step if isinstance(step, Unavailable) else [step])
                for step in list(self.stream._stream.script_steps)  # type: ignore[attr-defined]
            ]
            self.stream.start(self.received.append)
            async with asyncio.timeout(TIMEOUT_S):
                while not (self.saved or self.has_ended):
                    await asyncio.sleep(0.001)
                after()
                while not self.has_ended:
                    await asyncio.sleep(0.001)

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
    iterated, delivered = (Recording(HELLO, Future, save_timeout_s=SLOW_S) for _ in range(2))
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
