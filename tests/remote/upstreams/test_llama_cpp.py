"""Upstreams that run llama.cpp's server, by the bytes that it sends."""

from typing import Any

import pytest

from inference.errors import TooLong
from inference.events import Finished, Token, TopLogprob
from inference.types import GenerationRequest, Tool
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, document, event
from tests.remote.openai_chunks import DONE, chat_chunk, say, usage_chunk

TOOLS = tuple(Tool(name, "", {"type": "object", "properties": {}}) for name in ("weather", "news"))
# tools/server/server-task.cpp, probs_vector_to_json; the most probable token comes first.
PROBS = {
    "id": 7,
    "token": "Paris",
    "bytes": list(b"Paris"),
    "logprob": -0.25,
    "top_logprobs": [{"id": 7, "token": "Paris", "bytes": list(b"Paris"), "logprob": -0.25}],
}


def tokens_of(open_upstream: OpenModel, prompt: Any = CHAT, **options: Any) -> list[Token]:
    backend = open_upstream("openai_chat:None" if prompt == CHAT else "openai:None", detected="llama.cpp")
    return [
        each for each in backend.generate(GenerationRequest(prompt, **options)) if isinstance(each, Token)
    ]


@pytest.mark.parametrize(("num_requested", "num_sent"), [(0, 1), (3, 3)])
def test_logprobs_need_an_alternative(
    num_requested: int, num_sent: int, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    end = chat_chunk({}, reason="stop")
    upstream.reply = Reply([chat_chunk({"content": "Paris"}, logprobs={"content": [PROBS]}), end, DONE])
    tokens = tokens_of(open_upstream, logprobs=num_requested)
    assert upstream.bodies[-1]["top_logprobs"] == num_sent and upstream.bodies[-1]["logprobs"] is True
    top = TopLogprob(7, "Paris", -0.25)
    assert tokens == [Token(0, 7, "Paris", -0.25, (top,), spelling="Paris")], "its ids are known"


def test_a_completion_has_the_logprobs_of_a_chat(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    choice = {"text": "Paris", "index": 0, "logprobs": {"content": [PROBS]}, "finish_reason": None}
    end = {"text": "", "index": 0, "logprobs": None, "finish_reason": "stop"}
    upstream.reply = Reply([event({"choices": [each]}) for each in (choice, end)])
    tokens = tokens_of(open_upstream, "The capital", logprobs=0)
    assert [(each.id, each.logprob) for each in tokens] == [(7, -0.25)]
    assert upstream.bodies[-1]["logprobs"] == 1


def test_a_prompt_beyond_the_slot_is_too_long(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    message = "request (6012 tokens) exceeds the available context size (512 tokens), try increasing it"
    upstream.reply = document({"error": {"code": 400, "message": message}}, 400)
    with pytest.raises(TooLong) as refusal:
        tokens_of(open_upstream)
    assert (refusal.value.limit, refusal.value.length) == (512, 6012)


@pytest.mark.parametrize(
    ("choice", "names", "sent_choice"),
    [("news", ["news"], "required"), ("auto", ["weather", "news"], "auto")],
)
def test_a_tool_that_must_be_called_is_the_only_one(
    choice: str, names: list[str], sent_choice: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    """It reads an object as tool_choice as "auto"."""
    upstream.reply = Reply([*say("yes"), DONE])
    tokens_of(open_upstream, tools=TOOLS, tool_choice=choice)
    body = upstream.bodies[-1]
    assert [each["function"]["name"] for each in body["tools"]] == names
    assert body["tool_choice"] == sent_choice


def test_each_answer_has_its_own_count(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    """Its usage counts the tokens of one of them."""
    texts = [chat_chunk({"content": text}, index) for text in ("a", "b") for index in (0, 1)]
    ends = [chat_chunk({}, index, "stop") for index in (0, 1)]
    upstream.reply = Reply([*texts, *ends, usage_chunk(5, 2), DONE])
    backend = open_upstream("openai_chat:None", detected="llama.cpp")
    events = list(backend.generate(GenerationRequest(CHAT, n=2)))
    assert [each.num_tokens for each in events if isinstance(each, Finished)] == [2, 2]
