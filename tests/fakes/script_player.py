"""The thread of a FakeBackend: delivers the steps of the streams that play; ends with the last of them."""

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

from inference.backend import Sink
from inference.errors import ServerError
from inference.events import Event

THREAD_NAME = "script-player"
Delivery = list[Event] | ServerError
Post = Callable[[Callable[[], None]], object]


class Playable(Protocol):
    """A stream of which each step becomes due. closed_at: 0 until it is closed."""

    closed_at: float

    @property
    def is_done(self) -> bool: ...

    def next_delivery(self) -> Delivery | None: ...


class Pace(Protocol):
    """pace_s: seconds until the next step; post: runs a delivery on the thread of the sinks."""

    pace_s: float
    post: Post


class ScriptPlayer:
    """Plays streams, on a thread that no test leaves behind: it would wake up a thousand times a second."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._lock = threading.Lock()
        self._new: list[tuple[Playable, Sink]] = []
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    def play(self, stream: Playable, sink: Sink) -> None:
        with self._lock:
            self._new.append((stream, sink))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Deliver nothing more. Afterwards the thread has ended, unless it is the caller."""
        self._is_closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        playing: list[tuple[Playable, Sink]] = []
        while not self._is_closed.wait(self._pace.pace_s):
            with self._lock:
                playing = [each for each in playing + self._new if not each[0].is_done]
                self._new.clear()
                if not playing:
                    self._thread = None
                    return
            due = [(stream, sink, step) for stream, sink in playing if (step := stream.next_delivery())]
            if due:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._pace.post(lambda due=due: deliver(due))


def deliver(due: list[tuple[Playable, Sink, Delivery]]) -> None:
    for stream, sink, delivery in due:
        if not stream.closed_at:
            sink(delivery)
