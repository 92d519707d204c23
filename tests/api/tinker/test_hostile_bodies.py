"""Bodies that lie, at random: each is refused in words or through its promise, never with status 5xx."""

import json
import random
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.tinker.protobuf.wire import (
    MAX_FIELDS,
    MAX_INTEGERS,
    bytes_field,
    integer_field,
    integers,
    packed_field,
    read_fields,
)
from inference.errors import BadRequest
from tests.api.tinker.pass_bodies import JSON_PASS, OWN_REQUEST, PROTOBUF
from tests.api.tinker.scripted_runs import RUN, SAMPLER, SESSION, ScriptedRuns
from tuning.runs.types import ForwardBackward, RejectedRequest

NUM_BODIES = 150
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 70, 1e308, "", "../../etc/passwd", "\x00", "a" * 300, [], {},
    [[[]]], {"chunks": []}, {"chunks": [{}]}, [1.5], ["1"], {"type": "image"}, "tinker://x/weights/../y",
)  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "create_session": {"user_metadata": {"a": "b"}, "sdk_version": "0.38.0"},
    "create_model": {
        "session_id": SESSION,
        "model_seq_id": 0,
        "base_model": "fake/model",
        "lora_config": {"rank": 8},
    },
    "forward_backward": {"model_id": RUN, "seq_id": 1, "forward_backward_input": JSON_PASS},
    "forward": {"model_id": RUN, "seq_id": 1, "forward_input": JSON_PASS},
    "optim_step": {"model_id": RUN, "seq_id": 1, "adam_params": {"learning_rate": 0.1}},
    "save_weights": {"model_id": RUN, "seq_id": 1, "path": "a", "ttl_seconds": 3600},
    "save_weights_for_sampler": {"model_id": RUN, "seq_id": 1, "path": "a"},
    "load_weights": {"model_id": RUN, "seq_id": 1, "path": "tinker://a/weights/b", "optimizer": False},
    "asample": {
        "sampling_session_id": SAMPLER,
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1]}]},
        "sampling_params": {"max_tokens": 4},
    },
    "retrieve_future": {"request_id": f"{RUN}:9"},
    "cancel_future": {"request_id": "x"},
    "join_sampling_session": {"sampling_session_id": SAMPLER},
}


def spoil(value: Any, walk: random.Random) -> Any:
    """The value with one place of it, at any depth, replaced by something nasty, or taken away."""
    if isinstance(value, dict) and value and walk.random() < 0.85:
        key = walk.choice(list(value))
        rest = {name: item for name, item in value.items() if name != key}
        return rest if walk.random() < 0.15 else rest | {key: spoil(value[key], walk)}
    if isinstance(value, list) and value and walk.random() < 0.85:
        index = walk.randrange(len(value))
        return [*value[:index], spoil(value[index], walk), *value[index + 1 :]]
    return walk.choice(NASTY)


def check_refused_or_accepted(reply: Any) -> None:
    assert reply.status_code in (200, 400, 404, 410, 413, 415), reply.data
    assert reply.status_code == 200 or reply.json["detail"]


def test_json_bodies_that_lie_are_refused_or_accepted(api: FlaskClient) -> None:
    walk = random.Random(1)
    for _ in range(NUM_BODIES):
        path = walk.choice(list(BODIES))
        body = json.dumps(spoil(BODIES[path], walk))
        check_refused_or_accepted(api.post(f"/api/v1/{path}", data=body, content_type="application/json"))


def test_protobuf_bodies_that_lie_are_refused_or_accepted(api: FlaskClient, runs: ScriptedRuns) -> None:
    walk = random.Random(2)
    for _ in range(NUM_BODIES):
        body = bytearray(OWN_REQUEST)
        for _ in range(walk.randint(1, 6)):
            body[walk.randrange(len(body))] = walk.randrange(256)
        length = walk.choice((len(body), walk.randrange(len(body))))
        reply = api.post("/api/v1/forward_backward", data=bytes(body[:length]), content_type=PROTOBUF)
        check_refused_or_accepted(reply)
    assert len(runs.submitted) > NUM_BODIES / 3


def test_a_sparse_tensor_of_a_huge_shape_takes_no_memory(api: FlaskClient, runs: ScriptedRuns) -> None:
    empty = bytes_field(2, bytes_field(2, b"\x00" * 8))
    for shape in ((1 << 40, 64), (4, 1 << 40), (1 << 62, 1 << 62)):
        tensor = empty + integer_field(3, 2) + packed_field(4, shape)
        entry = bytes_field(2, bytes_field(1, b"target_tokens") + bytes_field(2, tensor))
        chunk = bytes_field(1, bytes_field(1, bytes_field(1, b"\x01\x00\x00\x00" * 4)))
        body = bytes_field(1, RUN.encode()) + integer_field(2, 1) + bytes_field(3, chunk + entry)
        reply = api.post(
            "/api/v1/forward_backward", data=body + bytes_field(4, b"cross_entropy"), content_type=PROTOBUF
        )
        assert reply.status_code == 200
    assert len(runs.submitted) == 3
    assert not any(isinstance(request, ForwardBackward) for _, _, request in runs.submitted)


def test_fields_are_counted_over_all_messages(api: FlaskClient, runs: ScriptedRuns) -> None:
    chunk = bytes_field(1, bytes_field(1, b""))
    ids = bytes_field(1, RUN.encode()) + integer_field(2, 1)
    body = ids + bytes_field(3, chunk * 500) * (MAX_FIELDS // 500)
    reply = api.post("/api/v1/forward_backward", data=body, content_type=PROTOBUF)
    assert reply.status_code == 200
    (request,) = (request for _, _, request in runs.submitted)
    assert isinstance(request, RejectedRequest) and f"more than {MAX_FIELDS} fields" in request.message


def test_a_shape_has_few_sizes() -> None:
    fields = read_fields(packed_field(4, [1] * (MAX_INTEGERS + 1)))
    with pytest.raises(BadRequest, match=f"more than {MAX_INTEGERS} integers in field 4"):
        integers(fields, 4)
