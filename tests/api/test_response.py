"""One answer, streamed or whole, pulled as by any WSGI server or pushed as by the event loop."""

import gc
import logging
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.merged_stream import MergedStream, submit_all
from api.response import NDJSON, SSE, ResponseBody
from inference.backend import Sink
from inference.errors import Internal, Overloaded, ServerError, Unavailable
from inference.events import Event, Finished, Started, Token
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say
from tests.fakes.plain_dialect import PlainWriter, routes


def client_of(backend: FakeBackend) -> FlaskClient:
    app: Flask = create_app(make_models(backend), ServerSettings())
    app.register_blueprint(routes(backend))
    return app.test_client()


def test_a_whole_answer_is_one_json_value() -> None:
    response = client_of(FakeBackend(say("a", "b"))).post("/say", json={})
    assert (response.status_code, response.mimetype, response.json) == (
        200,
        "application/json",
        {"said": "ab"},
    )


@pytest.mark.parametrize("stream", ["", "ndjson", "sse"])
def test_a_header_names_the_server_that_answered(stream: str) -> None:
    events = say("a")
    started = next(event for event in events if isinstance(event, Started))
    backend = FakeBackend([replace(started, member="große-2"), *events[1:]])
    response = client_of(backend).post("/say", json={"stream": stream} if stream else {})
    assert response.headers["X-Hearth-Member"] == "gro%C3%9Fe-2"


def test_ndjson_has_one_value_per_line() -> None:
    response = client_of(FakeBackend(say("a", "b"))).post("/say", json={"stream": "ndjson"})
    assert (response.mimetype, response.text) == ("application/x-ndjson", '[0,"a"]\n[0,"b"]\n')


def test_sse_has_one_value_per_event() -> None:
    response = client_of(FakeBackend(say("a", "b"))).post("/say", json={"stream": "sse"})
    assert (response.mimetype, response.text) == ("text/event-stream", 'data: [0,"a"]\n\ndata: [0,"b"]\n\n')


@pytest.mark.parametrize("stream", ["", "ndjson", "sse"])
def test_an_error_before_the_first_event_has_its_own_status(stream: str) -> None:
    backend = FakeBackend([Unavailable("no memory left")])
    response = client_of(backend).post("/say", json={"stream": stream})
    assert (response.status_code, response.json) == (503, {"failed": "no memory left"})
    assert response.mimetype == "application/json"


def test_an_error_after_the_first_event_ends_the_stream() -> None:
    script = [*say("a", "b")[:2], Internal("the step failed")]
    response = client_of(FakeBackend(script)).post("/say", json={"stream": "ndjson"})
    assert (response.status_code, response.text) == (200, '[0,"a"]\n{"broken":"the step failed"}\n')


def test_an_error_after_the_first_event_fails_a_whole_answer() -> None:
    script = [*say("a", "b")[:2], Internal("the step failed")]
    response = client_of(FakeBackend(script)).post("/say", json={})
    assert (response.status_code, response.json) == (500, {"failed": "the step failed"})


def test_an_overloaded_server_says_when_to_retry() -> None:
    response = client_of(FakeBackend([Overloaded(2.3)])).post("/say", json={"stream": "sse"})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "3")


def test_a_refusal_at_submission_is_an_error_of_the_app() -> None:
    response = client_of(FakeBackend(error=Overloaded(7))).post("/say", json={"stream": "sse"})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")


def test_a_stream_without_its_last_event_is_an_error() -> None:
    response = client_of(FakeBackend(say("a")[:-1])).post("/say", json={"stream": "ndjson"})
    assert response.text == '[0,"a"]\n{"broken":"the stream ended before its last answer"}\n'


@pytest.mark.parametrize("stream", ["", "ndjson"])
def test_an_answer_is_closed_when_it_ends(stream: str) -> None:
    backend = FakeBackend(say("a"))
    client_of(backend).post("/say", json={"stream": stream}).get_data()
    assert backend.streams and not backend.open_streams


def test_closing_the_response_cancels_the_stream() -> None:
    backend = FakeBackend(say(*"abc"))
    response = client_of(backend).post("/say", json={"stream": "ndjson"}, buffered=False)
    assert next(response.iter_encoded()) == b""  # Started
    assert backend.open_streams
    response.close()
    assert not backend.open_streams


def test_several_answers_end_with_the_last() -> None:
    script = [Started(0, 1, 0), Started(1, 1, 0), Token(1, 0, "x"), Finished(1, "stop"), *say("y")[1:]]
    response = client_of(FakeBackend(script)).post("/say", json={"stream": "ndjson", "n": 2})
    assert response.text == '[1,"x"]\n[0,"y"]\n'


def test_merged_requests_number_their_answers_consecutively() -> None:
    def script(request: GenerationRequest) -> list[Any]:
        return [*say("a"), *say("b", index=1)]

    response = client_of(FakeBackend(script)).post("/say", json={"stream": "ndjson", "n": 2, "copies": 2})
    assert sorted(response.text.split()) == ['[0,"a"]', '[1,"b"]', '[2,"a"]', '[3,"b"]']


def test_the_stream_of_a_single_request_is_not_wrapped() -> None:
    backend = FakeBackend()
    assert submit_all(backend.generate, [GenerationRequest("")]) is backend.streams[0]


def test_a_failing_request_ends_those_merged_with_it() -> None:
    class SinkOnlyStream:
        closed = False

        def start(self, sink: Any) -> None:
            self.sink = sink

        def close(self) -> None:
            self.closed = True

    streams = [SinkOnlyStream(), SinkOnlyStream()]
    arrived: list[list[Event] | ServerError] = []
    MergedStream(streams).start(arrived.append)  # type: ignore[arg-type]
    streams[1].sink([Token(0, 5, "x")])
    error = Unavailable("over")
    streams[0].sink(error)
    streams[1].sink([Token(0, 6, "y")])
    assert arrived == [[Token(1, 5, "x")], error]
    assert streams[1].closed


def feed_all(writer: PlainWriter, *steps: list[Event] | ServerError) -> tuple[ResponseBody, list[bytes]]:
    response = ResponseBody(FakeBackend().generate(GenerationRequest("")), writer, NDJSON)
    return response, [response.feed(step) for step in steps]


def test_the_status_is_unknown_until_the_first_event() -> None:
    assert feed_all(PlainWriter())[0].status == 0


def test_all_events_of_a_step_are_one_chunk_of_bytes() -> None:
    _, chunks = feed_all(PlainWriter(), say("a", "b", "c"))
    assert chunks == [b'[0,"a"]\n[0,"b"]\n[0,"c"]\n']


def test_a_writer_that_refuses_fails_the_answer() -> None:
    class RefusingWriter(PlainWriter):
        def chunk(self, event: Event) -> list[Any]:
            raise Unavailable("not in this dialect")

    response, chunks = feed_all(RefusingWriter(), say("a"))
    assert (response.status, chunks) == (503, [b'{"failed":"not in this dialect"}'])


def test_a_writer_with_a_bug_is_logged_and_reveals_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class BuggyWriter(PlainWriter):
        def chunk(self, event: Event) -> list[Any]:
            return [{}["secret"]]

    with caplog.at_level(logging.ERROR):
        response, chunks = feed_all(BuggyWriter(), say("a"))
    assert (response.status, b"secret" in chunks[0], "KeyError" in caplog.text) == (500, False, True)


@pytest.mark.parametrize(("events", "sent"), [([], b"text"), (say("a")[:2], b'[0,"a"]\n')])
def test_a_writer_that_fails_on_an_error_still_ends_the_answer(events: list, sent: bytes) -> None:
    class BuggyErrorWriter(PlainWriter):
        def error_before_start(self, error: ServerError) -> tuple[int, Any]:
            raise KeyError("secret")

        def error_in_stream(self, error: ServerError) -> list[Any]:
            raise KeyError("secret")

    response, chunks = feed_all(BuggyErrorWriter(), *([events] if events else []), Unavailable("text"))
    assert response.has_ended and response.status == (200 if events else 500)
    assert sent in b"".join(chunks) and b"secret" not in b"".join(chunks)


def test_close_callbacks_are_called_once() -> None:
    response, _ = feed_all(PlainWriter())
    calls: list[int] = []
    response.on_close(lambda: calls.append(1))
    response.close()
    response.close()
    assert calls == [1]


def test_no_value_breaks_the_framing() -> None:
    assert SSE.encode({"text": "a\n\ndata: b\r"}).count(b"\n") == 2


class KeepingStream:
    """A stream that refers to its sink for good, as the real one does."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        raise StopIteration

    def start(self, sink: Sink) -> None:
        self.sink = sink

    def close(self) -> None: ...


def test_a_closed_response_is_freed_without_a_garbage_collection() -> None:
    gc.disable()
    try:
        response = ResponseBody(KeepingStream(), PlainWriter(), None)
        response.start(lambda data: None)
        response.close()
        reference = weakref.ref(response)
        del response
        assert reference() is None
    finally:
        gc.enable()
