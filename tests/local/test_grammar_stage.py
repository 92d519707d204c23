"""A request whose grammar is not known to be quick waits for it in a stream, not in its thread."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inference.engine.step_output import StepOutput
from inference.errors import BadRequest, ServerError
from inference.events import Event, Finished, Token
from inference.local import LocalBackend
from inference.structured_output.grammar_checker import CheckAbandoned
from inference.types import Constraint, GenerationRequest
from tests.local.conftest import FakeCompiler, FakeMatcher
from tests.local.fake_engine import FakeEngine
from tests.timeouts import TIMEOUT_S

REQUEST = GenerationRequest("The", constraint=Constraint("regex", "[ab]+"))


class SlowCompiler(FakeCompiler):
    """Compiles when `may_finish` is set; gives up as soon as it is abandoned."""

    def __init__(self) -> None:
        super().__init__()
        self.may_finish, self.has_begun, self.was_abandoned = (threading.Event() for _ in range(3))
        self.error: ServerError | None = None

    def is_quick(self, constraint: Constraint) -> bool:
        return False

    def compile(
        self, constraint: Constraint, field: str = "", is_abandoned: Callable[[], bool] | None = None
    ) -> FakeMatcher:
        assert is_abandoned is not None
        self.has_begun.set()
        while not self.may_finish.wait(0.001):
            if is_abandoned():
                self.was_abandoned.set()
                raise CheckAbandoned
        if self.error:
            raise self.error
        return super().compile(constraint, field)


@pytest.fixture
def compiler() -> Iterator[SlowCompiler]:
    compiler = SlowCompiler()
    yield compiler
    compiler.may_finish.set()


class Deliveries:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[ServerError] = []
        self.has_ended = threading.Event()

    def __call__(self, delivery: list[Event] | ServerError) -> None:
        if isinstance(delivery, ServerError):
            self.errors.append(delivery)
        else:
            self.events += delivery
        if self.errors or isinstance(self.events[-1], Finished):
            self.has_ended.set()


def wait_until_submitted(engine: FakeEngine) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not engine.output_sinks:
        assert time.monotonic() < deadline, "nothing was submitted"
        time.sleep(0.001)


def put_answer(engine: FakeEngine) -> None:
    wait_until_submitted(engine)
    engine.put(StepOutput((5,), num_cached_tokens=0, finish_reason="length"))


def test_the_answer_begins_when_the_grammar_is_compiled(
    backend: LocalBackend, engine: FakeEngine, compiler: SlowCompiler
) -> None:
    stream, deliveries = backend.generate(REQUEST), Deliveries()
    stream.start(deliveries)
    assert not engine.requests
    compiler.may_finish.set()
    put_answer(engine)
    assert deliveries.has_ended.wait(TIMEOUT_S)
    assert [type(event) for event in deliveries.events][-2:] == [Token, Finished]


def test_an_iterated_stream_waits_for_the_grammar(
    backend: LocalBackend, engine: FakeEngine, compiler: SlowCompiler
) -> None:
    stream = backend.generate(REQUEST)
    compiler.may_finish.set()
    put_answer(engine)
    assert [type(event) for event in stream][-2:] == [Token, Finished]


def test_a_refused_grammar_is_an_error_of_the_stream(backend: LocalBackend, compiler: SlowCompiler) -> None:
    compiler.error = BadRequest("guided_regex", "takes too long")
    compiler.may_finish.set()
    with pytest.raises(BadRequest, match="takes too long"):
        next(backend.generate(REQUEST))
    stream, deliveries = backend.generate(REQUEST), Deliveries()
    stream.start(deliveries)
    assert deliveries.has_ended.wait(TIMEOUT_S)
    assert deliveries.errors == [compiler.error]


def test_closing_the_stream_abandons_the_compilation(
    backend: LocalBackend, engine: FakeEngine, compiler: SlowCompiler
) -> None:
    stream, deliveries = backend.generate(REQUEST), Deliveries()
    stream.start(deliveries)
    assert compiler.has_begun.wait(TIMEOUT_S)
    stream.close()
    assert compiler.was_abandoned.wait(TIMEOUT_S)
    assert not engine.requests and not deliveries.errors and not deliveries.events


def test_closing_the_stream_after_the_compilation_cancels_the_answer(
    backend: LocalBackend, engine: FakeEngine, compiler: SlowCompiler
) -> None:
    compiler.may_finish.set()
    stream = backend.generate(REQUEST)
    wait_until_submitted(engine)
    stream._job.future.result(TIMEOUT_S)  # type: ignore[attr-defined]
    stream.close()
    assert engine.cancelled == [0]


def test_an_iterated_stream_ends_when_it_is_closed(backend: LocalBackend, compiler: SlowCompiler) -> None:
    stream, events = backend.generate(REQUEST), list[Event]()
    reader = threading.Thread(target=lambda: events.extend(stream))
    reader.start()
    assert compiler.has_begun.wait(TIMEOUT_S)
    stream.close()
    reader.join(TIMEOUT_S)
    assert not reader.is_alive() and not events
