"""What a TGI body asks of the backend."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.settings import AppSettings
from inference.sampling import Sampling, Watermark
from inference.types import Constraint, GenerationRequest
from tests.fake_backend import FakeBackend, say

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED = {**SCHEMA, "additionalProperties": False}


@pytest.fixture
def asked(client: FlaskClient, backend: FakeBackend) -> Any:
    """asked(field=value, …): the backend's request for a body with these parameters; None: without any."""

    backend.script = lambda request: [event for i in range(request.n) for event in say("a", index=i)]

    def ask(path: str = "/generate", **parameters: Any) -> GenerationRequest:
        response = client.post(path, json={"inputs": "Hi", "parameters": parameters or None})
        assert response.status_code == 200, response.text
        return backend.requests[-1]

    return ask


def test_without_parameters_an_answer_is_sampled(client: FlaskClient, backend: FakeBackend) -> None:
    for body in ({"inputs": "Hi"}, {"inputs": "Hi", "parameters": None}):
        client.post("/generate", json=body)
        assert backend.requests[-1].sampling == Sampling()


def test_with_parameters_it_is_greedy_unless_they_ask_for_chance(asked: Any) -> None:
    assert asked(max_new_tokens=5).sampling.greedy
    assert asked(temperature=1.0).sampling.greedy
    chances = ({"do_sample": True}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.5}, {"typical_p": 0.5})
    for chance in chances:
        assert not asked(**chance).sampling.greedy


def test_every_field_that_shapes_the_choice_arrives(asked: Any) -> None:
    sampling = asked(
        temperature=0.5,
        top_k=10,
        top_p=0.75,
        typical_p=0.25,
        repetition_penalty=1.5,
        frequency_penalty=-0.5,
        watermark=True,
        seed=2**64 - 1,
    ).sampling
    assert sampling == Sampling(
        temperature=0.5,
        top_k=10,
        top_p=0.75,
        typical_p=0.25,
        repetition=1.5,
        frequency_share=-0.5,
        watermark=Watermark(0.5, 2.0),
        seed=2**64 - 1,
    )


def test_the_watermark_is_as_the_settings_have_it(backend: FakeBackend) -> None:
    client = create_app(backend, AppSettings(watermark_gamma=0.25, watermark_delta=4.0)).test_client()
    client.post("/generate", json={"inputs": "Hi", "parameters": {"watermark": True}})
    assert backend.requests[-1].sampling.watermark == Watermark(0.25, 4.0)


def test_what_ends_an_answer_arrives(asked: Any) -> None:
    request = asked(max_new_tokens=7, stop=["a", "b"], truncate=5)
    assert (request.max_tokens, request.fits, request.truncate) == (7, True, 5)
    assert (request.stop, request.keep_stop, request.stop_aligned) == (("a", "b"), True, True)


def test_an_answer_of_no_told_length_may_be_as_long_as_there_is_room(asked: Any) -> None:
    request = asked()
    assert (request.max_tokens, request.fits) == (None, False)


@pytest.mark.parametrize(
    ("grammar", "constraint"),
    [
        ({"type": "json", "value": SCHEMA}, Constraint("json_schema", CLOSED)),
        ({"type": "json_object", "value": SCHEMA}, Constraint("json_schema", CLOSED)),
        (
            {"type": "json", "value": '{"properties": {}}'},
            Constraint("json_schema", {"type": "object", "properties": {}, "additionalProperties": False}),
        ),
        (
            {"type": "json_schema", "value": {"name": "person", "schema": SCHEMA}},
            Constraint("json_schema", CLOSED),
        ),
        ({"type": "regex", "value": "a+"}, Constraint("regex", "a+")),
    ],
)
def test_a_grammar_is_a_constraint(asked: Any, grammar: dict[str, Any], constraint: Constraint) -> None:
    assert asked(grammar=grammar).constraint == constraint


def test_logprobs_are_asked_for_where_they_are_told_or_decide(asked: Any) -> None:
    assert asked().logprobs is None
    assert asked(details=True).logprobs == 0
    assert asked("/generate_stream").logprobs == 0
    assert asked(best_of=2, do_sample=True).logprobs == 0
    assert asked(details=True).warped


def test_more_alternatives_are_asked_for_than_are_told(asked: Any, backend: FakeBackend) -> None:
    """Any number of them may be as probable as the last."""
    assert asked(details=True, top_n_tokens=0).logprobs == 0
    assert asked(details=True, top_n_tokens=3).logprobs == 20
    wide = create_app(backend, AppSettings(max_top_n_tokens=30)).test_client()
    for most, alternatives in ((18, 20), (25, 25)):
        wide.post("/generate", json={"inputs": "Hi", "parameters": {"details": True, "top_n_tokens": most}})
        assert backend.requests[-1].logprobs == alternatives


def test_the_prompts_logprobs_are_asked_for_where_they_are_told(asked: Any) -> None:
    assert asked(details=True).prompt_logprobs is None
    assert asked(decoder_input_details=True).prompt_logprobs == 0


def test_the_best_of_several_are_one_request(asked: Any, backend: FakeBackend) -> None:
    assert asked(best_of=2, do_sample=True).n == 2
    assert len(backend.requests) == 1


def test_nulls_and_unknown_fields_mean_nothing(client: FlaskClient, backend: FakeBackend) -> None:
    names = ("best_of", "temperature", "stop", "do_sample", "watermark", "details", "seed", "grammar")
    body = {"inputs": "Hi", "parameters": dict.fromkeys(names) | {"new": 1}, "new": 2}
    assert client.post("/generate", json=body).status_code == 200
    assert backend.requests[-1] == GenerationRequest(
        "Hi", Sampling(greedy=True), keep_stop=True, stop_aligned=True, warped=True
    )


def test_special_tokens_are_as_suits_the_prompt_unless_the_body_says(
    client: FlaskClient, backend: FakeBackend
) -> None:
    client.post("/generate", json={"inputs": "Hi", "add_special_tokens": False})
    assert backend.requests[-1].special is False


def test_the_settings_stand_in_for_what_is_not_said(backend: FakeBackend) -> None:
    client = create_app(backend, AppSettings(max_tokens=9, deadline_s=4.0)).test_client()
    client.post("/generate", json={"inputs": "Hi"})
    request = backend.requests[-1]
    assert (request.max_tokens, request.fits, request.deadline) == (9, False, 4.0)
