"""Every fault at every kind of upstream: the right error, no whole answer, and no key at another address."""

from collections.abc import Mapping
from typing import Any

import pytest

from inference.errors import BadRequest, Overloaded, ServerError, TooLarge, Unavailable
from inference.events import Event, Finished, Token
from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Step, document, event
from tests.remote.upstream_kinds import KINDS

KEY = "sk-very-secret-key-123"
ONCE, RETRIED = 1, 3  # attempts
DEEP = b"[" * 100_000 + b"]" * 100_000


def error(status: int, **headers: str) -> Reply:
    return document({"error": {"message": f"no, {KEY} at http://10.0.0.1"}}, status, **headers)


# What an upstream sends instead of an answer's first event → the error, and how often it is tried.
BEFORE: Mapping[str, tuple[Reply, type[ServerError], int]] = {
    "400": (error(400), BadRequest, ONCE),
    "401": (error(401), Unavailable, ONCE),
    "404": (error(404), Unavailable, ONCE),
    "413": (error(413), TooLarge, ONCE),
    "429": (error(429, **{"Retry-After": "30"}), Overloaded, ONCE),
    "500": (error(500), Unavailable, RETRIED),
    "redirect": (Reply([], 307, headers={"Location": "/elsewhere"}), Unavailable, ONCE),
    "HTML": (Reply([b"<html>"], content_type="text/html"), Unavailable, RETRIED),
    "gzip": (Reply([b"\x1f\x8b"], headers={"Content-Encoding": "gzip"}), Unavailable, RETRIED),
    "no JSON": (Reply([event(b"{no json")]), Unavailable, RETRIED),
    "a number": (Reply([event(5)]), Unavailable, RETRIED),
    "deep JSON": (Reply([event(DEEP)]), Unavailable, RETRIED),
    "no UTF-8": (Reply([event(b'{"a": "\xff\xfe"}')]), Unavailable, RETRIED),
    "a large event": (Reply([b"data: " + b"x" * (1 << 20) + b"xxxxxxx\n\n"]), Unavailable, RETRIED),
    "no HTTP": (Reply([b"HTTP/1.1 nonsense\r\n\r\n"], is_raw=True), Unavailable, RETRIED),
    "reset": (Reply(["reset"]), Unavailable, RETRIED),
    "nothing": (Reply([]), Unavailable, RETRIED),
    "silence": (Reply(["wait"]), Unavailable, RETRIED),
}
# What follows an answer's first event.
AFTER: Mapping[str, list[Step]] = {
    "nothing": [],
    "reset": ["reset"],
    "silence": ["wait"],
    "no JSON": [event(b"{")],
    "deep JSON": [event(DEEP)],
    "a large event": [b"data: " + b"x" * (1 << 20) + b"xxxxxxx\n\n"],
}
# What other programs delay has more time than what the fault delays: a first event has the sum of two limits.
NO_FIRST_EVENT = {"connect": 0.4, "first": 0.1, "silence": 0.1}
NO_MORE_EVENTS = {"connect": 5.0, "first": 5.0, "silence": 0.1}


def fail(
    kind: str, fault: str, open_upstream: OpenModel, timeouts: Mapping[str, float], **keys: Any
) -> tuple[ServerError, list[Event]]:
    """The error that ends an answer, and the events before it. timeouts: of a server that is silent"""
    keys |= {"timeouts": timeouts} if fault == "silence" else {}
    backend, events = KINDS[kind].open(open_upstream, **keys), []
    with pytest.raises(ServerError) as failure:
        for each in backend.generate(KINDS[kind].request):
            events.append(each)
    assert not any(isinstance(each, Finished) for each in events)
    return failure.value, events


@pytest.mark.parametrize("fault", BEFORE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_before_the_first_event(
    kind: str, fault: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    reply, error_type, num_attempts = BEFORE[fault]
    KINDS[kind].play(upstream, reply)
    keys = {} if kind == "gradio" else {"key": KEY}
    failure, events = fail(kind, fault, open_upstream, NO_FIRST_EVENT, **keys)
    assert type(failure) is error_type and not events
    assert len(KINDS[kind].attempts(upstream)) in (num_attempts, 2 * num_attempts), "a reset is repeated once"
    assert KEY not in failure.message and "10.0.0.1" not in failure.message
    assert not any("elsewhere" in sent.path for sent in upstream.sent), "no redirect is followed"


@pytest.mark.parametrize("fault", [*AFTER, "an error"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_off_is_never_whole_and_never_repeated(
    kind: str, fault: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    rest = [KINDS[kind].error] if fault == "an error" else AFTER[fault]
    KINDS[kind].play(upstream, Reply([KINDS[kind].first_event, 0.01, *rest]))
    failure, events = fail(kind, fault, open_upstream, NO_MORE_EVENTS)
    assert type(failure) is Unavailable
    assert [each.text for each in events if isinstance(each, Token)] == ["a"]
    assert len(upstream.sent) == KINDS[kind].num_requests


@pytest.mark.parametrize("fault", ["401", "500", "redirect", "HTML", "gzip", "reset", "deep JSON"])
def test_a_fault_where_gradio_takes_a_call(
    fault: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    reply, error_type, num_attempts = BEFORE[fault]
    upstream.reply = reply
    failure, events = fail("gradio", fault, open_upstream, NO_FIRST_EVENT)
    assert type(failure) is error_type and not events
    assert len(upstream.sent) in (num_attempts, 2 * num_attempts)
    assert {sent.method for sent in upstream.sent} == {"POST"}, "there is no answer to read"
