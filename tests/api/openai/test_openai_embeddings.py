"""/v1/embeddings: the sizes, scales and encodings of vectors, and every form of input."""

import base64
import math
import struct
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.openai.embeddings import VectorFormat
from inference.errors import Internal
from inference.events import Embedding
from inference.types import Message
from tests.api.openai.app_requests import refusal
from tests.fakes.fake_backend import FakeBackend, embedding

EMBEDDINGS = "/v1/embeddings"


def vectors(client: FlaskClient, **fields: Any) -> list[Any]:
    response = client.post(EMBEDDINGS, json={"input": "a"} | fields)
    assert response.status_code == 200, response.text
    return [entry["embedding"] for entry in response.get_json()["data"]]


def scaled(vector: list[float]) -> list[float]:
    return [value / math.hypot(*vector) for value in vector]


def test_the_models_own_size_may_be_named(client: FlaskClient) -> None:
    assert vectors(client, dimensions=4) == [list(embedding("a").vector)]


@pytest.mark.parametrize("sizes", [(2, 4), range(1, 5)])
def test_a_vector_is_cut_and_scaled_where_the_model_allows_it(
    client: FlaskClient, backend: FakeBackend, sizes: Any
) -> None:
    backend.embedding_sizes = sizes
    (vector,) = vectors(client, dimensions=2)
    assert vector == pytest.approx(scaled(list(embedding("a").vector[:2])))
    (encoded,) = vectors(client, dimensions=2, encoding_format="base64")
    assert struct.unpack("<2f", base64.b64decode(encoded)) == pytest.approx(vector)


@pytest.mark.parametrize(
    ("sizes", "dimensions", "message"),
    [
        ((4,), 2, "dimensions must be 4, the only size of this model's embeddings, got 2"),
        ((4,), 8, "dimensions must be 4, the only size of this model's embeddings, got 8"),
        ((2, 4), 3, "dimensions must be one of (2, 4), the sizes of this model's embeddings, got 3"),
        ((), 4, "dimensions must be left out: this model has no sizes to choose from, got 4"),
        (range(1, 5), 0, "dimensions must be between 1 and 4, the sizes of this model's embeddings, got 0"),
        (range(1, 5), 5, "dimensions must be between 1 and 4, the sizes of this model's embeddings, got 5"),
        (range(1, 5), -1, "dimensions must be between 1 and 4, the sizes of this model's embeddings, got -1"),
    ],
)
def test_another_size_is_refused_with_those_that_exist(
    client: FlaskClient, backend: FakeBackend, sizes: Any, dimensions: int, message: str
) -> None:
    backend.embedding_sizes = sizes
    response = client.post(EMBEDDINGS, json={"input": "a", "dimensions": dimensions})
    refusal(response, 400, message, "BadRequestError")
    assert response.get_json()["error"]["param"] == "dimensions"
    native = {"model_id": "fake/model", "contents": ["a"], "output_dimension": dimensions}
    response = client.post("/v1/inference/embeddings", json=native)
    assert response.status_code == 400
    assert message.partition(" ")[2] in response.get_json()["error"]["message"]


def test_llama_stacks_own_route_cuts_vectors_too(client: FlaskClient, backend: FakeBackend) -> None:
    backend.embedding_sizes = (2, 4)
    body = {"model_id": "fake/model", "contents": ["a"], "output_dimension": 2}
    (vector,) = client.post("/v1/inference/embeddings", json=body).get_json()["embeddings"]
    assert vector == pytest.approx(scaled(list(embedding("a").vector[:2])))


@pytest.mark.parametrize("fields", [{"normalize": False}, {"use_activation": False}])
def test_vectors_can_keep_their_length(
    client: FlaskClient, backend: FakeBackend, fields: dict[str, Any]
) -> None:
    raw = [value * embedding("a").norm for value in embedding("a").vector]
    assert embedding("a").norm != pytest.approx(1)
    assert vectors(client, **fields) == [pytest.approx(raw)]
    backend.embedding_sizes = (2, 4)
    assert vectors(client, dimensions=2, **fields) == [pytest.approx(raw[:2])]


@pytest.mark.parametrize("fields", [{"normalize": True}, {"use_activation": True}, {"normalize": None}])
def test_vectors_have_length_1_otherwise(client: FlaskClient, fields: dict[str, Any]) -> None:
    assert vectors(client, **fields) == [list(embedding("a").vector)]


def test_two_names_of_an_option_must_agree(client: FlaskClient) -> None:
    assert vectors(client, normalize=False, use_activation=False)
    response = client.post(EMBEDDINGS, json={"input": "a", "normalize": True, "use_activation": False})
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, "normalize")


@pytest.mark.parametrize(
    ("fields", "layout"),
    [
        ({}, "<4f"),
        ({"endianness": "native"}, "=4f"),
        ({"endianness": "big"}, ">4f"),
        ({"embed_dtype": "float32", "endianness": "little"}, "<4f"),
        ({"embed_dtype": "float16"}, "<4e"),
        ({"embed_dtype": "float16", "endianness": "big"}, ">4e"),
    ],
)
def test_base64_has_the_requested_numbers_and_byte_order(
    client: FlaskClient, fields: dict[str, Any], layout: str
) -> None:
    (encoded,) = vectors(client, encoding_format="base64", **fields)
    assert struct.unpack(layout, base64.b64decode(encoded)) == pytest.approx(embedding("a").vector, rel=1e-3)
    assert vectors(client, encoding_format="float", **fields) == [list(embedding("a").vector)]


@pytest.mark.parametrize(("number", "largest"), [("e", 65504.0), ("f", 3.4028234663852886e38)])
def test_a_number_beyond_its_type_becomes_the_largest_one(number: str, largest: float) -> None:
    vector_format = VectorFormat(None, normalize=False, layout=("<", number))
    written = vector_format.write(Embedding((1.0, -1.0, 0.0), 1e300, 1))
    assert isinstance(written, str)
    assert struct.unpack(f"<3{number}", base64.b64decode(written)) == (largest, -largest, 0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"embed_dtype": "fp8_e4m3"}, "embed_dtype must be one of float32, float16, got 'fp8_e4m3'."),
        ({"endianness": "middle"}, "endianness must be one of little, big, native, got 'middle'."),
    ],
)
def test_an_encoding_that_does_not_exist_is_refused(
    client: FlaskClient, fields: dict[str, str], message: str
) -> None:
    response = client.post(EMBEDDINGS, json={"input": "a"} | fields)
    refusal(response, 400, message, "BadRequestError")
    assert response.get_json()["error"]["param"] == next(iter(fields))


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"text": "a b"}, ["a b"]),
        ({"type": "text", "text": "a b"}, ["a b"]),
        ([{"text": "a"}, {"type": "input_text", "text": "b"}], ["a", "b"]),
        (["a", {"text": "b"}, [1, 2]], ["a", "b", [1, 2]]),
    ],
)
def test_a_text_may_be_an_object(client: FlaskClient, value: Any, texts: list[Any]) -> None:
    assert vectors(client, input=value) == [list(embedding(text).vector) for text in texts]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"image": "x"}, "input.text"),
        ([{"type": "image_url", "image_url": {"url": "x"}, "text": ""}], "input[0].type"),
        ({"text": ""}, "input"),
        ([{"text": ""}], "input"),
        ([1, {"text": "a"}], "input"),
    ],
)
def test_an_object_without_a_text_is_refused(client: FlaskClient, value: Any, field: str) -> None:
    response = client.post(EMBEDDINGS, json={"input": value})
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, field)


def test_a_conversation_is_one_input(client: FlaskClient, backend: FakeBackend) -> None:
    """The fake backend tokenizes the text of the messages, a token for each word."""
    response = client.post(EMBEDDINGS, json={"messages": [{"role": "user", "content": "hi"}]})
    num_tokens = len(repr((Message("user", "hi"),)).split())
    (entry,) = response.get_json()["data"]
    assert entry["embedding"] == list(embedding(list(range(num_tokens))).vector)
    assert response.get_json()["usage"]["prompt_tokens"] == num_tokens


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "hi"}], "input": "a"},
        {"messages": []},
        {"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True}
        | {"continue_final_message": True},
        {"input": "a", "truncate_prompt_tokens": -2},
        {},
    ],
)
def test_conflicting_and_missing_inputs_are_refused(client: FlaskClient, fields: dict[str, Any]) -> None:
    response = client.post(EMBEDDINGS, json=fields)
    assert (response.status_code, response.get_json()["error_type"]) == (400, "validation")


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [4, 5]), ({"truncation_side": "right"}, [3, 4]), ({"truncation_side": "left"}, [4, 5])],
)
def test_an_input_loses_tokens_on_the_named_side(
    client: FlaskClient, options: dict[str, str], expected: list[int]
) -> None:
    (vector,) = vectors(client, input=[3, 4, 5], truncate_prompt_tokens=2, **options)
    assert vector == list(embedding(expected).vector)


def test_special_tokens_can_be_left_out(client: FlaskClient) -> None:
    """The texts are then tokenized apart from the model's way."""
    assert vectors(client, input=["a b", [5]], add_special_tokens=False) == [
        list(embedding(ids).vector) for ids in ([0, 1], [5])
    ]


def test_a_vector_that_is_not_a_number_is_the_servers_error(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.error = Internal("the model's output for this request is not a number")
    response = client.post(EMBEDDINGS, json={"input": "a"})
    message = "the model's output for this request is not a number"
    refusal(response, 500, message, "Internal Server Error", "generation")
