"""Tinker's protobuf messages, against bytes that its client 0.38.0 sent and read."""

import base64
import random

import numpy as np
import pytest

from api.tinker.pass_body import OtherChunk
from api.tinker.protobuf.forward_backward import read_ids, read_pass, write_output
from api.tinker.protobuf.sample import write_sample
from api.tinker.protobuf.wire import bytes_field, integer_field, read_fields, varint
from api.tinker.sampling.result import SampledSequence, SampleResult
from inference.errors import BadRequest
from tests.api.tinker.protobuf_bodies import MODEL_ID, REQUEST

OUTPUT = base64.b64decode(
    "CgtBcnJheVJlY29yZBI2EjIKCGxvZ3Byb2JzEiYKEFHyv8BrXcnANfDTwKqy2MASEAAAAAAAAAAAEAAAAAAAAAAYARgBGhMKCGxvc3M6"
    "c3VtEQAAAFACsDNA"
)


def test_the_captured_request_is_read() -> None:
    assert read_ids(REQUEST) == (MODEL_ID, 1)
    body = read_pass(REQUEST)
    assert (body.loss_fn, body.loss_fn_config, body.forward_only) == ("cross_entropy", {}, False)
    (datum,) = body.data
    assert [list(chunk) for chunk in datum.model_input] == [[10, 11, 12, 13]]
    targets, weights = datum.loss_fn_inputs["target_tokens"], datum.loss_fn_inputs["weights"]
    assert (targets.values.tolist(), targets.shape) == ([11, 12, 13, 14], [4])
    assert (weights.values.tolist(), weights.shape) == ([0, 1, 1, 1], [4])


def test_the_captured_answer_is_written() -> None:
    logprobs = np.frombuffer(OUTPUT, "<f4", 4, offset=OUTPUT.index(b"\n\x10") + 2)
    loss = np.frombuffer(OUTPUT[-8:], "<f8")[0]
    assert write_output([logprobs], {"loss:sum": loss}) == OUTPUT


def test_arrays_of_several_widths_become_a_record_each() -> None:
    wide = np.zeros((2, 3), np.float32)
    fields = read_fields(write_output([wide, wide, np.zeros(4, np.float32)], {}))
    assert [read_fields(record)[3] for record in fields[2]] == [[2], [1]]


def test_a_config_of_the_second_kind_holds_texts_and_numbers() -> None:
    number = bytes_field(1, b"beta") + bytes_field(2, b"\x09" + np.float64(0.5).tobytes())
    word = bytes_field(1, b"mode") + bytes_field(2, bytes_field(2, b"fast"))
    body = read_pass(bytes_field(7, number) + bytes_field(7, word))
    assert body.loss_fn_config == {"beta": 0.5, "mode": "fast"}


def test_an_image_is_named() -> None:
    image = bytes_field(1, bytes_field(2, bytes_field(1, b"png")))
    assert read_pass(bytes_field(3, image)).data[0].model_input == [OtherChunk("image")]


@pytest.mark.parametrize(
    "body",
    [
        b"\x00",
        b"\x1a\xff\xff\xff\xff\x0f",
        b"\x80" * 20,
        b"\x1a",
        varint(3 << 3 | 1) + b"1234",
        integer_field(3, 1),
        bytes_field(3, bytes_field(1, b"")),
        bytes_field(3, bytes_field(1, bytes_field(1, bytes_field(1, b"123")))),
        bytes_field(4, b"\xff"),
        bytes_field(3, bytes_field(2, bytes_field(1, b"weights") + bytes_field(2, integer_field(3, 9)))),
    ],
    ids=range(10),
)
def test_a_broken_message_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_pass(body)


def test_the_ids_before_a_broken_place_are_read() -> None:
    assert read_ids(REQUEST[:-20]) == (MODEL_ID, 1)


def test_flipped_bytes_raise_bad_request_or_nothing() -> None:
    walk = random.Random(0)
    for _ in range(2000):
        body = bytearray(REQUEST)
        for _ in range(walk.randint(1, 4)):
            body[walk.randrange(len(body))] = walk.randrange(256)
        try:
            read_ids(bytes(body)), read_pass(bytes(body))
        except BadRequest:
            pass


def test_a_sample_is_written() -> None:
    sequence = SampledSequence("length", [7, 8], [-0.25, -1.5], [((5, -0.5), (6, -1.0)), ((7, -0.125),)])
    fields = read_fields(write_sample(SampleResult([sequence], prompt_logprobs=[None, -2.0])))
    written = read_fields(fields[1][0])
    assert written[1] == [1] and np.frombuffer(written[2][0], "<i4").tolist() == [7, 8]
    assert np.frombuffer(written[3][0], "<f4").tolist() == [-0.25, -1.5]
    top = read_fields(written[4][0])
    assert (top[3], top[4], np.frombuffer(top[1][0], "<i4").tolist()) == ([2], [2], [5, 6, 7, 0])
    assert np.frombuffer(top[2][0], "<f4").tolist() == [-0.5, -1.0, -0.125, np.float32(-99999.0)]
    first, second = np.frombuffer(fields[2][0], "<f4")
    assert np.isnan(first) and second == -2.0
