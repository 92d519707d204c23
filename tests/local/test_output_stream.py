"""The stream of an answer, pulled or pushed: its order, its end, its cancellation."""

import gc
import threading
from typing import Any

import pytest

from inference.backend import Stream
from inference.engine.step_output import StepOutput
from inference.errors import Internal, ServerError, Unavailable
from inference.events import Event, Finished, Started, Token
from inference.local import LocalBackend
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.local.fake_engine import FakeEngine
from tests.process.panicking_tokenizer import make_panicking_tokenizer
from tests.timeouts import TIMEOUT_S

REQUEST = GenerationRequest("The", Sampling(greedy=True))
PAIR = GenerationRequest("The", Sampling(greedy=True), n=2)


class DeliverySink:
    """A sink that records its deliveries."""

    def __init__(self) -> None:
        self.batches: list[list[Event]] = []
        self.errors: list[ServerError] = []

    def __call__(self, delivery: list[Event] | ServerError) -> None:
        if isinstance(delivery, ServerError):
            self.errors.append(delivery)
        else:
            self.batches.append(delivery)

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]


def test_a_sink_gets_earlier_events_first_and_then_each_new_output(
    backend: LocalBackend, engine: FakeEngine
) -> None:
    stream: Stream = backend.generate(REQUEST)
    engine.put(StepOutput((5,), num_cached_tokens=0))
    engine.put(StepOutput((6,)))
    listener = DeliverySink()
    stream.start(listener)
    assert [type(event) for event in listener.events] == [Started, Token, Token]
    engine.put(StepOutput((7,), finish_reason="length"))
    assert [type(event) for event in listener.batches[-1]] == [Token, Finished]


def test_pulled_and_pushed_events_are_the_same(backend: LocalBackend, engine: FakeEngine) -> None:
    pulled, pushed = backend.generate(REQUEST), backend.generate(REQUEST)
    listener = DeliverySink()
    pushed.start(listener)
    for task in (0, 1):
        engine.say([5, 6, 7], end=2, request=task)
    assert list(pulled) == listener.events


def test_closing_cancels_unfinished_answers_once(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(PAIR)
    engine.say([5], request=0)
    assert [type(next(stream)) for _ in range(3)] == [Started, Token, Finished]
    stream.close()
    stream.close()
    assert engine.cancelled == [1]
    assert list(stream) == []


def test_closing_a_stream_that_has_ended_cancels_nothing(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(REQUEST)
    engine.say([5])
    assert len(list(stream)) == 3
    stream.close()
    assert engine.cancelled == []


def test_a_sink_is_not_called_after_close(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(REQUEST)
    listener = DeliverySink()
    stream.start(listener)
    stream.close()
    engine.say([5])
    assert listener.batches == []


def test_a_sink_may_close_its_stream(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(REQUEST)
    deliveries: list[Any] = []

    def sink(events: list[Event] | ServerError) -> None:
        deliveries.append(events)
        stream.close()

    stream.start(sink)
    engine.say([5, 6, 7])
    assert len(deliveries) == 1
    assert engine.cancelled == [0]


def test_an_abandoned_stream_is_cancelled(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(REQUEST)
    next_record = StepOutput((5,), num_cached_tokens=0)
    engine.put(next_record)
    next(stream)
    del stream
    gc.collect()
    assert engine.cancelled == [0]


def test_close_wakes_a_waiting_reader(backend: LocalBackend) -> None:
    stream = backend.generate(REQUEST)
    received: list[Event] = []
    reader = threading.Thread(target=lambda: received.extend(stream))
    reader.start()
    stream.close()
    reader.join(TIMEOUT_S)
    assert not reader.is_alive()
    assert received == []


def test_an_error_of_one_answer_ends_the_stream(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(PAIR)
    engine.put(StepOutput((5,), num_cached_tokens=0), request=0)
    engine.put(StepOutput(error=Internal("broken")), request=1)
    assert [type(next(stream)) for _ in range(2)] == [Started, Token]
    with pytest.raises(Internal, match="broken"):
        next(stream)
    assert engine.cancelled == [0]
    assert list(stream) == []


def test_an_error_is_handed_to_the_sink(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(REQUEST)
    listener = DeliverySink()
    stream.start(listener)
    backend.close()
    engine.put(StepOutput((5,)))
    assert [type(error) for error in listener.errors] == [Unavailable]
    assert listener.events == []


def test_an_output_that_cannot_be_decoded_fails_only_its_own_stream(
    backend: LocalBackend, engine: FakeEngine
) -> None:
    stream = backend.generate(REQUEST)
    listener = DeliverySink()
    stream.start(listener)
    engine.put(StepOutput(("no id",), num_cached_tokens=0))  # type: ignore[arg-type]
    assert [type(error) for error in listener.errors] == [Internal]
    assert engine.cancelled == [0]


def test_outputs_from_two_threads_are_delivered_in_order(backend: LocalBackend, engine: FakeEngine) -> None:
    """As a worker calls `start` while the engine's thread delivers."""
    for _ in range(30):
        engine.requests.clear()
        engine.output_sinks.clear()
        stream = backend.generate(REQUEST)
        listener = DeliverySink()
        ids = list(range(4, 40))
        deliverer = threading.Thread(target=engine.say, args=(ids,))
        deliverer.start()
        stream.start(listener)
        deliverer.join()
        assert [event.id for event in listener.events if isinstance(event, Token)] == ids
        assert isinstance(listener.events[-1], Finished)


def test_a_panic_of_the_tokenizer_ends_the_stream_with_an_error(
    backend: LocalBackend,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = backend.generate(REQUEST)
    panicking = make_panicking_tokenizer()
    decoder = stream._collector.answer_decoders[0]
    monkeypatch.setattr(decoder, "process", lambda output: panicking.encode("a" * 40 + "!"))
    listener = DeliverySink()
    stream.start(listener)
    engine.put(StepOutput((5,)))
    assert [type(error) for error in listener.errors] == [Internal]
    assert "PanicException" in caplog.text
