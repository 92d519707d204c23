"""Tokenizing by a server that shares its tokenizer, through its routes."""

from typing import Any

import pytest

from inference.errors import NotImplementedHere, Unavailable
from inference.tokenized import TokenSpan
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document

TOKENS = [{"id": 5, "text": "hi", "start": 0, "stop": 2}, {"id": 6, "text": " there", "start": 2, "stop": 8}]
SPANS = (TokenSpan(5, "hi", 0, 2, "hi"), TokenSpan(6, " there", 2, 8, " there"))
REPLIES: dict[str, Any] = {
    "/tokenize": TOKENS,
    "/chat_tokenize": {"templated_text": "hi there", "tokenize_response": TOKENS},
    "/detokenize": {"prompt": "hi there"},
    "/tokenizer_info": {"eos_token": "</s>"},
}


@pytest.fixture
def hearth(upstream: FakeUpstream) -> FakeUpstream:
    def reply(sent: Sent) -> Reply:
        return document(REPLIES[sent.path]) if sent.path in REPLIES else document({}, 404)

    upstream.reply = reply
    return upstream


def test_a_text_and_a_conversation_are_tokenized(hearth: FakeUpstream, open_upstream: OpenModel) -> None:
    backend = open_upstream("hearth")
    assert backend.tokenize(GenerationRequest("hi there", add_special_tokens=False)).token_spans == SPANS
    tokenized = backend.tokenize(GenerationRequest(CHAT))
    assert (tokenized.text, tokenized.token_spans) == ("hi there", SPANS)
    assert hearth.bodies[0] == {"inputs": "hi there", "add_special_tokens": False}
    assert hearth.bodies[1]["messages"] == [{"role": "user", "content": "hi"}]
    assert backend.encode_texts(["hi there"]) == [(5, 6)] and hearth.bodies[2] == hearth.bodies[0]


def test_ids_become_text_and_the_config_is_read(hearth: FakeUpstream, open_upstream: OpenModel) -> None:
    backend = open_upstream("hearth")
    assert backend.detokenize([5, 6], show_special=False) == "hi there"
    assert hearth.bodies[0] == {"model": "up/model", "tokens": [5, 6], "skip_special_tokens": True}
    assert backend.tokenizer_config() == {"eos_token": "</s>"}


def test_tgi_has_no_detokenizer(hearth: FakeUpstream, open_upstream: OpenModel) -> None:
    backend = open_upstream("tgi")
    assert backend.tokenize(GenerationRequest("hi there")).token_spans == SPANS
    with pytest.raises(NotImplementedHere, match="turns no token ids into text"):
        backend.detokenize([5])


def test_other_servers_share_no_tokenizer(hearth: FakeUpstream, open_upstream: OpenModel) -> None:
    with pytest.raises(NotImplementedHere, match="does not share its tokenizer"):
        open_upstream("openai_chat:None").tokenize(GenerationRequest("hi"))


@pytest.mark.parametrize(
    "value", [[{"id": 5}], [TOKENS[0] | {"start": "0"}], {"prompt": 5}, "text", None, [[]]]
)
def test_an_answer_of_another_form_is_refused(
    value: Any, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = document(value)
    backend = open_upstream("hearth")
    with pytest.raises(Unavailable, match="no tokens"):
        backend.tokenize(GenerationRequest("hi"))
    with pytest.raises(Unavailable, match="no tokens"):
        backend.tokenize(GenerationRequest(CHAT))
    with pytest.raises(Unavailable, match="no tokens"):
        backend.detokenize([5])
