"""The field `model` of an answer: the model that answers, also where it is not the requested one."""

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.events import Finished, Started, Token
from tests.fakes.fake_backend import FakeBackend


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"input": "hi"}),
    ],
)
@pytest.mark.parametrize(("answered_by", "name"), [("second", "second"), ("", "fake/model")])
def test_every_chunk_names_the_model_that_answers(
    answered_by: str,
    name: str,
    path: str,
    body: dict[str, Any],
    stream: bool,
    client: FlaskClient,
    backend: FakeBackend,
) -> None:
    started = Started(0, 1, 0, model=answered_by)
    backend.script = [started, Token(0, 7, "yes"), Finished(0, "stop", num_tokens=1)]
    response = client.post(path, json=body | {"model": "fake/model", "stream": stream})
    names = re.findall(r'"model":"([^"]*)"', response.text)
    assert response.status_code == 200 and set(names) == {name} and len(names) > stream
