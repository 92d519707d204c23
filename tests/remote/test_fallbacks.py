"""Another model answers for one that is down, or that a prompt is too long for."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.errors import BadRequest, Unavailable
from inference.events import Started, Token
from inference.metrics.upstream import UpstreamMetrics
from inference.remote.detect import Detected
from inference.remote.open import link_fallbacks, open_model
from inference.remote.open_member import CannotOpen
from inference.types import GenerationRequest
from settings.model_list import parse_models
from settings.remote_model import RemoteModel
from tests.remote.conftest import CHAT
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document
from tests.remote.openai_chunks import chat_chunk, whole_answer

TOO_LONG = document({"error": {"message": "maximum context length is 8 tokens, you sent 9"}}, 400)
DOWN = document({"error": {"message": "no"}}, 418)  # which is not sent again


def models_of(upstream: FakeUpstream, **keys: list[str]) -> tuple[RemoteModel, ...]:
    server = f"vllm_chat:{upstream.url}/v1"
    names = ("first", "second", "third")
    entries = [{"base_model": name, "inference_server": server} for name in names]
    return parse_models([entries[0] | keys, *entries[1:]]).remote


@pytest.fixture
def first(
    upstream: FakeUpstream, loop: asyncio.AbstractEventLoop, registry: CollectorRegistry
) -> Iterator[Backend]:
    models = models_of(upstream, fallbacks=["second", "third"], context_fallbacks=["third"])
    metrics = UpstreamMetrics(registry)
    entries = [
        open_model(model, [Detected("vllm", ("first", "second", "third"))], metrics) for model in models
    ]
    link_fallbacks(models, entries)
    for entry in entries:
        entry.backend.attach(loop)
    yield entries[0].backend
    for entry in entries:
        entry.backend.close()


def answers_by_model(**replies: Reply) -> Callable[[Sent], Reply]:
    return lambda sent: replies.get(sent.body["model"]) or whole_answer(sent.body["model"])


def text_of(backend: Backend) -> str:
    return "".join(each.text for each in backend.generate(GenerationRequest(CHAT)) if isinstance(each, Token))


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ({}, "first"),
        ({"first": DOWN}, "second"),
        ({"first": DOWN, "second": DOWN}, "third"),
        ({"first": TOO_LONG}, "third"),
    ],
)
def test_a_fallback_answers_where_the_first_model_cannot(
    replies: dict[str, Reply], text: str, upstream: FakeUpstream, first: Backend
) -> None:
    upstream.reply = answers_by_model(**replies)
    assert text_of(first) == text


@pytest.mark.parametrize(("replies", "name"), [({}, ""), ({"first": DOWN}, "second")])
def test_an_answer_says_which_other_model_answers(
    replies: dict[str, Reply], name: str, upstream: FakeUpstream, first: Backend
) -> None:
    upstream.reply = answers_by_model(**replies)
    started = next(iter(first.generate(GenerationRequest(CHAT))))
    assert isinstance(started, Started) and started.model == name
    assert started.member == (name or "first")


def test_requests_that_went_to_another_model_are_counted(
    upstream: FakeUpstream, first: Backend, registry: CollectorRegistry
) -> None:
    upstream.reply = answers_by_model(first=DOWN)
    for _ in range(2):
        text_of(first)
    labels = {"model": "first", "to": "second"}
    assert registry.get_sample_value("hearth_upstream_fallbacks_total", labels) == 2


def test_the_first_error_counts_if_all_fail(upstream: FakeUpstream, first: Backend) -> None:
    upstream.reply = DOWN
    with pytest.raises(Unavailable, match="behind first"):
        text_of(first)


def test_a_wrong_request_or_a_broken_answer_has_no_fallback(upstream: FakeUpstream, first: Backend) -> None:
    upstream.reply = document({"error": {"message": "bad"}}, 400)
    with pytest.raises(BadRequest):
        text_of(first)
    upstream.reply = Reply([chat_chunk({"content": "a"}), "reset"])
    with pytest.raises(Unavailable):
        text_of(first)
    assert {sent.body["model"] for sent in upstream.sent if isinstance(sent, Sent)} == {"first"}


def test_a_fallback_must_be_a_model_on_another_server(upstream: FakeUpstream) -> None:
    models = models_of(upstream, fallbacks=["fourth"])
    metrics = UpstreamMetrics(CollectorRegistry())
    entries = [open_model(model, [Detected("vllm", (model.name,))], metrics) for model in models]
    with pytest.raises(CannotOpen, match="the fallback fourth is no model on another server"):
        link_fallbacks(models, entries)
