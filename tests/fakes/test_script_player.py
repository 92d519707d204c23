"""No test leaves the thread of a FakeBackend to the tests that follow it in the process."""

import threading

from inference.errors import ServerError
from inference.events import Event, Finished
from inference.types import GenerationRequest
from tests.fakes.fake_backend import FakeBackend, say
from tests.fakes.script_player import THREAD_NAME
from tests.timeouts import TIMEOUT_S


def players() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == THREAD_NAME}


def play(backend: FakeBackend) -> threading.Event:
    """Play an answer; what is set at its end."""
    has_ended = threading.Event()

    def receive(delivery: list[Event] | ServerError) -> None:
        if isinstance(delivery, list) and isinstance(delivery[-1], Finished):
            has_ended.set()

    backend.generate(GenerationRequest("hi")).start(receive)
    return has_ended


def test_the_thread_ends_with_the_last_stream_and_a_further_one_has_another() -> None:
    others, backend = players(), FakeBackend()
    for _ in range(2):
        assert play(backend).wait(TIMEOUT_S)
        for player in players() - others:
            player.join(TIMEOUT_S)
        assert not players() - others


def test_what_is_played_ends_when_the_backend_becomes_as_new() -> None:
    others, may_end = players(), threading.Event()
    backend = FakeBackend([may_end, *say("late")])
    has_ended = play(backend)
    assert players() - others
    backend.reset()
    may_end.set()
    assert not players() - others and not has_ended.is_set()
