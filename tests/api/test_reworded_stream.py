"""Errors that a stream raises have the words that the route's dialect has for errors of the request."""

from typing import Any

import pytest

from api import create_app
from api.reworded_stream import RewordedStream
from inference.backend import Stream
from inference.errors import BadRequest, Internal, ServerError
from inference.events import Started
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

REFUSED = BadRequest("response_format", "is not a usable regular expression: unclosed group")
SCHEMA = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
TGI = {"inputs": "a", "parameters": {"grammar": {"type": "regex", "value": "("}}}
TGI_MESSAGE = "Input validation error: grammar is not valid: unclosed group"


def make_client(error: ServerError = REFUSED) -> Any:
    """The backend's stream begins with the error, as that of a request whose grammar is compiled first."""
    error = BadRequest(error.field, error.rule) if isinstance(error, BadRequest) else error
    return create_app(make_models(FakeBackend([error])), ServerSettings()).test_client()


@pytest.mark.parametrize("error", [REFUSED, Internal("broken")], ids=["refused", "broken"])
def test_the_error_is_passed_on_in_other_words(error: ServerError) -> None:
    def open_stream() -> Stream:
        inner = FakeBackend([Started(0, prompt_tokens=1, cached_tokens=0), error]).generate(
            GenerationRequest("")
        )
        return RewordedStream(inner, lambda original: Internal(f"other words for: {original.message}"))

    stream = open_stream()
    assert isinstance(next(stream), Started)
    with pytest.raises(Internal, match=f"other words for: {error.message}"):
        next(stream)


@pytest.mark.parametrize("path", ["/generate", "/"])
def test_tgi_has_its_own_message_for_a_grammar(path: str) -> None:
    response = make_client().post(path, json=TGI)
    assert (response.status_code, response.json["error"]) == (422, TGI_MESSAGE)
    streamed = make_client().post("/generate_stream", json=TGI)
    assert streamed.status_code == 200 and f'"error":"{TGI_MESSAGE}"' in streamed.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_names_its_own_field(stream: bool) -> None:
    response = make_client().post(
        "/v1/responses", json={"input": "a", "stream": stream, "text": {"format": SCHEMA}}
    )
    assert (response.status_code, response.json["error"]["param"]) == (400, "text.format")
