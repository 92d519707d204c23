"""Bodies are parsed strictly, and every error names its field."""

import contextlib
import json
import tracemalloc
from typing import Annotated, Any, cast

import msgspec
import pytest
from flask import Flask, Request, request
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from api.body import large_json
from api.body.json_body import encode, parse, read, read_struct
from inference.errors import BadRequest

FAULTS = {
    b"": "is empty",
    b"  \n": "is empty",
    b'{"a": 1': "is not JSON",
    b'{"a": NaN}': "contains NaN",
    b'{"a": -Infinity}': "contains -Infinity",
    b'{"a": 1e400}': "too large",
    b'{"a": ' + b"9" * 5000 + b"}": "too many digits",
    b'{"a": "\\ud800"}': "a lone surrogate",
    b'{"\\udc00": 1}': "a lone surrogate",
    b'{"a": 1, "a": 2}': "a is repeated",
    b'{"a": {"b": 1, "b": 1}}': "b is repeated",
    b"[" * 101 + b"]" * 101: "nested deeper",
    b'[{"a":' * 51 + b"1" + b"}]" * 51: "nested deeper",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000: "nested deeper",
    b'{"a": "\xff"}': "not UTF-8",
    b'{"a": 1} x': "is not JSON",
    b"hello": "is not JSON",
}


@pytest.mark.parametrize("data", FAULTS, ids=lambda data: data[:24])
def test_a_faulty_body_is_refused_with_its_reason(data: bytes) -> None:
    with pytest.raises(BadRequest, match=FAULTS[data]):
        parse(data)


def test_a_body_of_a_hundred_levels_is_parsed() -> None:
    assert parse(b"[" * 100 + b"]" * 100)
    assert parse(b"[" + b"[{}]," * 200 + b"1]")[-1] == 1


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "😀"


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b"\xef\xbb\xbf[1]") == [1]


def test_a_large_body_is_in_memory_as_bytes_slices_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "check_memory", lambda num_bytes: None)  # allocates more, and frees it
    size = 4 << 20
    tracemalloc.start()
    try:
        bodies = [json.dumps("x" * size).encode()]
        tracemalloc.reset_peak()
        text = parse(bodies.pop())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text) == size and peak < 3.1 * size


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ue0d8tn1-', max_size=60).map(str.encode))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except BadRequest:
        pass


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class NestedBody(msgspec.Struct):
    content: list[TextPart]
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("test")

    @app.post("/")
    def read() -> str:
        try:
            return repr(read_struct(NestedBody).content)
        except BadRequest as error:
            return error.message

    return app.test_client()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"content": [{"text": "a"}, {"text": 5}]}', "content[1].text must be `str`, got `int`"),
        ('{"content": [{}]}', "content[0].text is required"),
        ("{}", "content is required"),
        ('{"content": [{"text": "", "size": 1}]}', "content[0].size is not a field of this request"),
        ('{"content": [], "top_p": 2}', "top_p must be `float` <= 1.0"),
        ("[]", "the body must be `object`, got `array`"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(client: FlaskClient, body: str, message: str) -> None:
    assert client.post("/", data=body).text == message


@pytest.mark.parametrize(("data", "error"), [("{", BadRequest), ("{}", None)])
def test_a_body_is_parsed_once_even_if_it_is_invalid(data: str, error: type[Exception] | None) -> None:
    class CountingRequest(Request):
        num_reads = 0

        def get_data(self, *args: Any, **kwargs: Any) -> Any:
            self.num_reads += 1
            return super().get_data(*args, **kwargs)

    app = Flask("test")
    app.request_class = CountingRequest
    with app.test_request_context(method="POST", data=data):
        for _ in range(3):
            with pytest.raises(error) if error else contextlib.nullcontext():
                read()
        assert cast(CountingRequest, request).num_reads == 1


FORM_TYPE = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", FORM_TYPE, None])
def test_json_is_read_under_other_content_types(client: FlaskClient, kind: str | None) -> None:
    assert client.post("/", data='{"content": []}', content_type=kind).text == "[]"


def test_another_content_type_is_an_unsupported_media_type(client: FlaskClient) -> None:
    assert client.post("/", data="<xml/>", content_type="application/xml").status_code == 415


def test_the_identity_encoding_is_read(client: FlaskClient) -> None:
    response = client.post("/", data='{"content": []}', headers={"Content-Encoding": "identity"})
    assert response.text == "[]"


def test_a_compressed_body_is_an_unsupported_media_type(client: FlaskClient) -> None:
    assert client.post("/", data=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status_code == 415


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), b"null"),
        (float("-inf"), b"null"),
        ("a\ud800b", '"a\ufffdb"'.encode()),
        ("\ud83d\ude00", '"😀"'.encode()),
        ({"\udc00": ["\udc00"]}, '{"\ufffd":["\ufffd"]}'.encode()),
        (1 << 70, b"1180591620717411303424"),
        ({1: (2, 3)}, b'{"1":[2,3]}'),
        (b'{"ready":1}', b'{"ready":1}'),
        ("line\nbreak\u2028", '"line\\nbreak\u2028"'.encode()),
    ],
)
def test_every_value_has_a_json_form(value: Any, expected: bytes) -> None:
    assert encode(value) == expected
