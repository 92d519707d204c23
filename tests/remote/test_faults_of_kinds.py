"""Every fault at every kind of upstream: the right error, no whole answer, and no key at another address."""

from collections.abc import Mapping

import pytest

from inference.errors import BadRequest, Overloaded, ServerError, TooLarge, Unavailable
from inference.events import Finished, Token
from tests.remote.broken_answers import break_off, fail
from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import AdvancingLoop, FakeUpstream, Reply, Step, document, event
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
    "silence": (Reply(["silence"]), Unavailable, RETRIED),
}
# What follows an answer's first event.
AFTER: Mapping[str, list[Step]] = {
    "nothing": [],
    "reset": ["reset"],
    "silence": ["silence"],
    "no JSON": [event(b"{")],
    "deep JSON": [event(DEEP)],
    "a large event": [b"data: " + b"x" * (1 << 20) + b"xxxxxxx\n\n"],
}


@pytest.mark.parametrize("fault", BEFORE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_before_the_first_event_is_an_error_without_a_secret(
    kind: str, fault: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    reply, error_type, num_attempts = BEFORE[fault]
    KINDS[kind].play(upstream, reply)
    keys = {} if kind == "gradio" else {"key": KEY}
    failure, events = fail(KINDS[kind].open(open_upstream, **keys).generate(KINDS[kind].request))
    assert type(failure) is error_type and not events
    assert len(KINDS[kind].attempts(upstream)) in (num_attempts, 2 * num_attempts), "a reset is repeated once"
    assert KEY not in failure.message and "10.0.0.1" not in failure.message
    assert not any("elsewhere" in sent.path for sent in upstream.sent), "no redirect is followed"


@pytest.mark.parametrize("fault", [*AFTER, "an error"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_off_is_never_whole_and_never_repeated(
    kind: str, fault: str, upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    rest = [KINDS[kind].error] if fault == "an error" else AFTER[fault]
    reply, go_on = break_off([KINDS[kind].first_event], rest, loop)
    KINDS[kind].play(upstream, reply)
    failure, events = fail(KINDS[kind].open(open_upstream).generate(KINDS[kind].request), go_on)
    assert type(failure) is Unavailable
    assert [each.text for each in events if isinstance(each, Token | Finished)] == ["a"]
    assert len(upstream.sent) == KINDS[kind].num_requests


@pytest.mark.parametrize("fault", ["401", "500", "redirect", "HTML", "gzip", "reset", "deep JSON"])
def test_a_fault_where_gradio_takes_a_call(
    fault: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    reply, error_type, num_attempts = BEFORE[fault]
    upstream.reply = reply
    failure, events = fail(KINDS["gradio"].open(open_upstream).generate(KINDS["gradio"].request))
    assert type(failure) is error_type and not events
    assert len(upstream.sent) in (num_attempts, 2 * num_attempts)
    assert {sent.method for sent in upstream.sent} == {"POST"}, "there is no answer to read"
