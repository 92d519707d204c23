"""Malformed bodies in every dialect are refused in its error format or answered; others do not notice."""

import json
from collections.abc import Iterator

import pytest
import requests

from tests.live.hostile import (
    CORRUPT_TEXT,
    KINDS,
    PATHS,
    REPEATED,
    VALUES,
    check_response,
    places,
    replace_at,
    send,
    undisturbed,
)
from tests.live.light_client import LightClient
from tests.live.raw_bodies import RAW
from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 5000, "-0.0", "0x10", "01")
LITERALS = (*NUMBERS, '"\\ud800"', '"\\u0000"', '"\\x41"', "'x'")
WELL = {"deep schema", "null byte"}  # bodies that some dialects answer
EXTENSIONS = {"prompt": "hi", "inputs": "hi", "generated_tokens_count": 2, "messages": 1, "input": {}}


@pytest.fixture(autouse=True)
def neighbour(server: ServerProcess) -> Iterator[None]:
    with undisturbed(server):
        yield


@pytest.mark.parametrize("name", sorted(RAW.keys() - WELL))
def test_a_broken_body_is_refused_everywhere(server: ServerProcess, name: str) -> None:
    for path in PATHS:
        response = send(requests, server.url + path, RAW[name])
        check_response(response)
        assert response.status_code in (400, 422), (path, response.text[:300])


def stride_of(name: str) -> int:
    """The distance of the values that a field of this kind gets."""
    return 20 if name in REPEATED else 5


@pytest.mark.parametrize("name", KINDS)
def test_any_field_may_hold_anything(server: ServerProcess, name: str) -> None:
    """Each field gets every fifth value, starting one further than the field before it; every twentieth if
    another kind tests the same struct.
    """
    kind, stride = KINDS[name], stride_of(name)
    with LightClient(server) as client:
        for number, place in enumerate(places(kind.shape)):
            for value in VALUES[number % stride :: stride]:
                check_response(send(client, server.url + kind.path, replace_at(kind.good, place, value)))


@pytest.mark.parametrize("name", KINDS)
def test_any_field_may_hold_almost_json(server: ServerProcess, name: str) -> None:
    kind, mark, stride = KINDS[name], "in its place", stride_of(name)
    with LightClient(server) as client:
        for number, place in enumerate(places(kind.shape)):
            body = json.dumps(replace_at(kind.good, place, mark))
            for literal in LITERALS[number % stride :: stride]:
                check_response(
                    send(client, server.url + kind.path, body.replace(f'"{mark}"', literal).encode())
                )


@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_mix_dialects_are_answered_or_refused(server: ServerProcess, path: str) -> None:
    for left_out in (*EXTENSIONS, ""):
        body = {name: value for name, value in EXTENSIONS.items() if name != left_out}
        check_response(send(requests, server.url + path, body))


def test_texts_that_tokenize_badly_are_detokenized_unchanged(server: ServerProcess) -> None:
    text = CORRUPT_TEXT.replace("\x00", "")
    tokens = send(requests, f"{server.url}/tokenize", {"prompt": text, "add_special_tokens": False}).json()
    reply = send(requests, f"{server.url}/detokenize", {"tokens": tokens["tokens"]}).json()
    assert reply["prompt"] == text


@pytest.mark.parametrize("id", [-1, 2048, 2**31, 2**63, 10**30])
def test_ids_beyond_the_vocabulary_are_refused(server: ServerProcess, id: int) -> None:
    completion = [{"prompt": [id]}, {"prompt": [[5], [id]]}]
    listed = [{"stop_token_ids": [id]}, {"allowed_token_ids": [id]}, {"logit_bias": {str(id): 1}}]
    for body in (*completion, *listed):
        response = send(requests, f"{server.url}/v1/completions", {"prompt": "hi", "max_tokens": 2} | body)
        check_response(response)
        assert response.status_code == 400, response.text
    for path, body in {"/v1/embeddings": {"input": [id]}, "/detokenize": {"tokens": [id]}}.items():
        response = send(requests, server.url + path, body)
        check_response(response)
        assert response.status_code == 400, response.text
