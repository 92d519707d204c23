"""A process of this project behind a socket: frames, the ends of answers, and errors as they were."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from inference.errors import TooLong
from inference.events import CallDelta, Event, Finished, Started, Token
from inference.link_messages import ERROR, TEXT_DECODER, ErrorMessage, error_frame, event_frame, frame
from inference.remote.event_stream import TooLargeEvent
from inference.remote.failures import UpstreamFailure
from inference.remote.frames import FrameParser
from inference.remote.upstreams.link import LinkApi, LinkReader, read_result, reported
from inference.types import GenerationRequest
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel

EVENTS = [Started(0, 3, 0), Token(0, 1, "a"), Started(1, 3, 0), Finished(0, "stop", num_tokens=1)]


def read_all(reader: LinkReader, events: Sequence[Event], size: int = 1 << 20) -> list[Event]:
    data, parser = b"".join(map(event_frame, events)), FrameParser()
    received = [event for at in range(0, len(data), size) for event in parser.feed(data[at : at + size])]
    return [event for each in received for event in reader.read(each)]


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
def test_events_do_not_depend_on_how_the_bytes_are_divided(size: int) -> None:
    assert read_all(LinkReader("m", 2, reported), EVENTS, size) == EVENTS


def test_an_answer_without_an_end_is_broken() -> None:
    reader = LinkReader("m", 2, reported)
    read_all(reader, EVENTS)
    assert not reader.is_complete
    with pytest.raises(UpstreamFailure, match="broken answer: it ended before its last answer"):
        reader.finish()


def test_a_deadline_ends_the_unfinished_answers() -> None:
    reader = LinkReader("m", 3, reported)
    read_all(reader, [*EVENTS, Token(1, 4, "b")])
    assert reader.finish_at_deadline() == [
        Finished(1, "deadline", num_tokens=1),
        Started(2, None, 0),
        Finished(2, "deadline"),
    ]


def test_an_error_is_passed_on_as_it_was() -> None:
    (message,) = FrameParser().feed(error_frame(TooLong("prompt", 8, 9)))
    with pytest.raises(UpstreamFailure) as failure:
        LinkReader("m", 1, reported).read(message)
    assert isinstance(failure.value.error, TooLong) and failure.value.outcome == "bad_request"


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x04\x92\xa1x\x01"])
def test_what_is_no_event_is_broken(data: bytes) -> None:
    (message,) = FrameParser().feed(data)
    with pytest.raises(UpstreamFailure, match="no event"):
        LinkReader("m", 1, reported).read(message)


@pytest.mark.parametrize(
    "events",
    [
        [Token(0, 1, "a")],
        [Finished(0, "stop")],
        [CallDelta(0, 0, "id", "f", "", False)],
        [Started(0, 3, 0), Started(0, 3, 0)],
        [Started(0, 3, 0), Finished(0, "stop"), Token(0, 1, "a")],
        [Started(0, 3, 0), Finished(0, "stop"), Finished(0, "stop")],
        [Started(2, 3, 0)],
        [Started(-1, 3, 0)],
    ],
)
def test_an_event_out_of_sequence_is_broken(events: Sequence[Event]) -> None:
    """Another server of the model can go on with the answer then."""
    with pytest.raises(UpstreamFailure, match="broken answer"):
        read_all(LinkReader("m", 2, reported), events)


def test_an_error_without_a_message_is_broken() -> None:
    data = frame(ERROR, ErrorMessage("Internal", {}))
    with pytest.raises(UpstreamFailure, match="no message"):
        read_result("m", data, TEXT_DECODER)


def test_damaged_bytes_are_read_or_broken() -> None:
    data = b"".join(map(event_frame, EVENTS)) + error_frame(TooLong("prompt", 8, 9))
    for at in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            reader = LinkReader("m", 2, reported)
            with suppress(UpstreamFailure, TooLargeEvent):
                for event in FrameParser().feed(bytes(damaged)):
                    reader.read(event)


def test_a_message_that_is_too_large_is_refused_before_it_arrives() -> None:
    with pytest.raises(TooLargeEvent):
        FrameParser().feed(b"\xff\xff\xff\xff")


def test_no_option_is_refused_here() -> None:
    model = parse_entry(1, {"base_model": "m", "inference_server": "hearth:http://localhost"})
    assert isinstance(model, RemoteModel)
    request = GenerationRequest((), truncate=1, min_tokens=3, n=2, processed_logprobs=True)
    (call,) = LinkApi(model).calls(request)
    assert call.path == "/link/generate"
