"""A body is read strictly, and every fault names its field."""

from typing import Annotated

import msgspec
import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from api.body import decode, parse
from inference.errors import BadRequest

FAULTS = {
    b"": "is empty",
    b"  \n": "is empty",
    b'{"a": 1': "is not JSON",
    b'{"a": NaN}': "holds NaN",
    b'{"a": -Infinity}': "holds -Infinity",
    b'{"a": 1e400}': "too large",
    b'{"a": ' + b"9" * 5000 + b"}": "too many digits",
    b'{"a": "\\ud800"}': "half a character",
    b'{"\\udc00": 1}': "half a character",
    b'{"a": 1, "a": 2}': "a stands twice",
    b'{"a": {"b": 1, "b": 1}}': "b stands twice",
    b"[" * 101 + b"]" * 101: "nested deeper",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000: "nested deeper",
    b'{"a": "\xff"}': "not UTF-8",
    b'{"a": 1} x': "is not JSON",
    b"hello": "is not JSON",
}


@pytest.mark.parametrize("data", FAULTS, ids=lambda data: data[:24])
def test_a_faulty_body_is_refused_with_its_reason(data: bytes) -> None:
    with pytest.raises(BadRequest, match=FAULTS[data]):
        parse(data)


def test_a_body_of_a_hundred_levels_is_read() -> None:
    assert parse(b"[" * 100 + b"]" * 100)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "😀"


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b"\xef\xbb\xbf[1]") == [1]


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ue0d8tn1-', max_size=60).map(str.encode))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except BadRequest:
        pass


class Part(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class Question(msgspec.Struct):
    parts: list[Part]
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("test")

    @app.post("/")
    def read() -> str:
        try:
            return repr(decode(Question).parts)
        except BadRequest as error:
            return error.message

    return app.test_client()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"parts": [{"text": "a"}, {"text": 5}]}', "parts[1].text must be `str`, got `int`"),
        ('{"parts": [{}]}', "parts[0].text is required"),
        ("{}", "parts is required"),
        ('{"parts": [{"text": "", "size": 1}]}', "parts[0].size is not a field of this request"),
        ('{"parts": [], "top_p": 2}', "top_p must be `float` <= 1.0"),
        ("[]", "the body must be `object`, got `array`"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(client: FlaskClient, body: str, message: str) -> None:
    assert client.post("/", data=body).text == message


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", FORM, None])
def test_json_is_read_whatever_it_is_called(client: FlaskClient, kind: str | None) -> None:
    assert client.post("/", data='{"parts": []}', content_type=kind).text == "[]"


def test_what_is_not_json_and_says_so_is_an_unsupported_media_type(client: FlaskClient) -> None:
    assert client.post("/", data="<xml/>", content_type="application/xml").status_code == 415


def test_a_body_encoded_as_itself_is_read(client: FlaskClient) -> None:
    response = client.post("/", data='{"parts": []}', headers={"Content-Encoding": "identity"})
    assert response.text == "[]"


def test_a_compressed_body_is_an_unsupported_media_type(client: FlaskClient) -> None:
    assert client.post("/", data=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status_code == 415
