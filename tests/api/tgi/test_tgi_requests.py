"""The GenerationRequest made of a TGI body."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.sampling import Sampling, Watermark
from inference.types import Constraint, GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models, say

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture
def to_request(client: FlaskClient, backend: FakeBackend) -> Any:
    """to_request(field=value, …): the backend's request for these parameters; without any, `parameters` is
    null.
    """

    backend.script = lambda request: [event for i in range(request.n) for event in say("a", index=i)]

    def post(path: str = "/generate", **parameters: Any) -> GenerationRequest:
        response = client.post(path, json={"inputs": "Hi", "parameters": parameters or None})
        assert response.status_code == 200, response.text
        return backend.requests[-1]

    return post


@pytest.mark.parametrize("path", ["/generate", "/", "/generate_stream"])
def test_the_adapter_is_the_one_of_the_parameters(
    client: FlaskClient, backend: FakeBackend, to_request: Any, path: str
) -> None:
    backend.lora = FakeAdapters("poet")
    body = {"inputs": "Hi", "parameters": {"adapter_id": "poet"}}
    assert client.post(path, json=body).status_code == 200
    assert backend.requests[-1].adapter == "poet"
    for parameters in ({"adapter_id": None}, {"max_new_tokens": 2}):
        assert client.post(path, json={"inputs": "Hi", "parameters": parameters}).status_code == 200
        assert backend.requests[-1].adapter is None


def test_without_parameters_an_answer_is_sampled(client: FlaskClient, backend: FakeBackend) -> None:
    for body in ({"inputs": "Hi"}, {"inputs": "Hi", "parameters": None}):
        client.post("/generate", json=body)
        assert backend.requests[-1].sampling == Sampling()


def test_with_parameters_it_is_greedy_unless_they_imply_sampling(to_request: Any) -> None:
    assert to_request(max_new_tokens=5).sampling.greedy
    assert to_request(temperature=1.0).sampling.greedy
    chances = ({"do_sample": True}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.5}, {"typical_p": 0.5})
    for chance in chances:
        assert not to_request(**chance).sampling.greedy


def test_every_sampling_field_is_passed_on(to_request: Any) -> None:
    sampling = to_request(
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
        repetition_penalty=1.5,
        tgi_frequency_penalty=-0.5,
        watermark=Watermark(0.5, 2.0),
        seed=2**64 - 1,
    )


def test_the_watermark_comes_from_the_settings(backend: FakeBackend) -> None:
    client = create_app(
        make_models(backend), ServerSettings(watermark_gamma=0.25, watermark_delta=4.0)
    ).test_client()
    client.post("/generate", json={"inputs": "Hi", "parameters": {"watermark": True}})
    assert backend.requests[-1].sampling.watermark == Watermark(0.25, 4.0)


def test_fields_that_end_an_answer_are_passed_on(to_request: Any) -> None:
    request = to_request(max_new_tokens=7, stop=["a", "b"], truncate=5)
    assert (request.max_tokens, request.reject_if_too_long, request.truncate) == (7, True, 5)
    assert (request.stop, request.include_stop_str_in_output, request.stop_at_token_end) == (
        ("a", "b"),
        True,
        True,
    )


def test_an_answer_without_a_limit_may_fill_the_context(to_request: Any) -> None:
    request = to_request()
    assert (request.max_tokens, request.reject_if_too_long) == (None, False)


@pytest.mark.parametrize(
    ("grammar", "constraint"),
    [
        ({"type": "json", "value": SCHEMA}, Constraint("json_schema", SCHEMA)),
        ({"type": "json_object", "value": SCHEMA}, Constraint("json_schema", SCHEMA)),
        (
            {"type": "json", "value": '{"properties": {}}'},
            Constraint("json_schema", {"type": "object", "properties": {}}),
        ),
        (
            {"type": "json_schema", "value": {"name": "person", "schema": SCHEMA}},
            Constraint("json_schema", SCHEMA),
        ),
        ({"type": "regex", "value": "a+"}, Constraint("regex", "a+")),
    ],
)
def test_a_grammar_is_a_constraint(to_request: Any, grammar: dict[str, Any], constraint: Constraint) -> None:
    assert to_request(grammar=grammar).constraint == constraint


def test_logprobs_are_requested_if_they_are_returned_or_select_the_best(to_request: Any) -> None:
    assert to_request().logprobs is None
    assert to_request(details=True).logprobs == 0
    assert to_request("/generate_stream").logprobs == 0
    assert to_request(best_of=2, do_sample=True).logprobs == 0
    assert to_request(details=True).processed_logprobs
    assert to_request(details=True).logprobs_are_optional
    assert not to_request(best_of=2, do_sample=True).logprobs_are_optional
    assert not to_request(details=True, top_n_tokens=3).logprobs_are_optional


def test_more_alternatives_are_requested_than_are_returned(to_request: Any, backend: FakeBackend) -> None:
    """Any number of tokens may be tied with the last."""
    assert to_request(details=True, top_n_tokens=0).logprobs == 0
    assert to_request(details=True, top_n_tokens=3).logprobs == 20
    wide = create_app(make_models(backend), ServerSettings(max_top_n_tokens=30)).test_client()
    for most, alternatives in ((18, 20), (25, 25)):
        wide.post("/generate", json={"inputs": "Hi", "parameters": {"details": True, "top_n_tokens": most}})
        assert backend.requests[-1].logprobs == alternatives


def test_prompt_logprobs_are_requested_if_they_are_returned(to_request: Any) -> None:
    assert to_request(details=True).prompt_logprobs is None
    assert to_request(decoder_input_details=True).prompt_logprobs == 0


def test_best_of_is_one_request(to_request: Any, backend: FakeBackend) -> None:
    assert to_request(best_of=2, do_sample=True).n == 2
    assert len(backend.requests) == 1


def test_nulls_and_unknown_fields_are_ignored(client: FlaskClient, backend: FakeBackend) -> None:
    names = ("best_of", "temperature", "stop", "do_sample", "watermark", "details", "seed", "grammar")
    body = {"inputs": "Hi", "parameters": dict.fromkeys(names) | {"new": 1}, "new": 2}
    assert client.post("/generate", json=body).status_code == 200
    assert backend.requests[-1] == GenerationRequest(
        "Hi",
        Sampling(greedy=True),
        include_stop_str_in_output=True,
        stop_at_token_end=True,
        processed_logprobs=True,
    )


def test_add_special_tokens_is_passed_on(client: FlaskClient, backend: FakeBackend) -> None:
    client.post("/generate", json={"inputs": "Hi", "add_special_tokens": False})
    assert backend.requests[-1].add_special_tokens is False


def test_settings_are_the_defaults_of_fields_that_are_not_sent(backend: FakeBackend) -> None:
    client = create_app(
        make_models(backend), ServerSettings(default_max_tokens=9, request_timeout_s=4.0)
    ).test_client()
    client.post("/generate", json={"inputs": "Hi"})
    request = backend.requests[-1]
    assert (request.max_tokens, request.reject_if_too_long, request.deadline) == (9, False, 4.0)
