"""The parser of event streams: every way to divide the bytes gives the same events."""

import time

import pytest

from inference.remote.event_stream import MAX_EVENT_BYTES, EventStreamParser, TooLargeEvent

STREAM = (
    "\ufeff: OPENROUTER PROCESSING\n\n"
    "data: one\n\n"
    "event: error\r\ndata:two\r\nid: 7\r\nretry: 5\r\n\r\n"
    "data: a\rdata: b\r\r"
    "data\n\ndata:\n\n"
    "data: ü€\n\n"
    "data: unfinished"
).encode()
EVENTS = [(b"", b"one"), (b"error", b"two"), (b"", b"a\nb"), (b"", "ü€".encode())]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_how_the_bytes_are_divided(size: int) -> None:
    parser = EventStreamParser()
    events = [event for at in range(0, len(STREAM), size) for event in parser.feed(STREAM[at : at + size])]
    assert events == EVENTS


def test_an_event_of_more_than_a_megabyte_is_refused() -> None:
    parser = EventStreamParser()
    with pytest.raises(TooLargeEvent):
        for _ in range(3):
            parser.feed(b"data: " + b"x" * (MAX_EVENT_BYTES // 2) + b"\n")


def test_an_event_of_endless_lines_without_a_value_is_refused() -> None:
    parser = EventStreamParser()
    with pytest.raises(TooLargeEvent):
        for _ in range(4):
            parser.feed(b"data:\n" * (MAX_EVENT_BYTES // 16))


@pytest.mark.parametrize("nothing", [b": ping\n\n", b"\n", b"event: ping\ndata:\n\n"])
def test_endless_comments_are_refused_and_those_between_events_are_not(nothing: bytes) -> None:
    parser = EventStreamParser()
    half = nothing * (MAX_EVENT_BYTES // 2 // len(nothing))
    for _ in range(3):
        assert parser.feed(half + b"data: x\n\n") == [(b"", b"x")]
    with pytest.raises(TooLargeEvent):
        for _ in range(3):
            parser.feed(half)


def test_a_line_that_arrives_byte_by_byte_takes_no_longer_the_longer_it_is() -> None:
    parser = EventStreamParser()

    def feed_bytes() -> float:
        start = time.thread_time()
        for _ in range(20_000):
            parser.feed(b"x")
        return time.thread_time() - start

    first = min(feed_bytes() for _ in range(3))
    parser.feed(b"x" * (MAX_EVENT_BYTES // 2))
    assert feed_bytes() < 10 * first, "it took 100 times as long where each chunk copied the line"


def test_a_line_without_an_end_is_refused_too() -> None:
    with pytest.raises(TooLargeEvent):
        EventStreamParser().feed(b"x" * (MAX_EVENT_BYTES + 1))
