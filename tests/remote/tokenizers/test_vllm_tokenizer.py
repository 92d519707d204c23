"""Tokenizing by a vLLM, whose routes tell no places: they are found by the names of the tokens."""

from typing import Any

import pytest

from inference.backend import Backend
from inference.errors import NotImplementedHere, Unavailable
from inference.remote.tokenizers.vllm_tokenizer import locate_names
from inference.tokenized import TokenSpan
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document

IDS = {"count": 2, "max_model_len": 64, "tokens": [5, 6]}
NAMED = IDS | {"token_strs": ["hi", "Ġthere"]}


@pytest.fixture
def backend(upstream: FakeUpstream, open_upstream: OpenModel) -> Backend:
    replies: dict[str, Any] = {"/tokenize": NAMED, "/detokenize": {"prompt": "hi there"}}

    def reply(sent: Sent) -> Reply:
        return document(replies[sent.path]) if sent.path in replies else document({}, 404)

    upstream.reply = reply
    return open_upstream("vllm_chat")


def test_a_text_and_a_conversation_are_tokenized(upstream: FakeUpstream, backend: Backend) -> None:
    spans = (TokenSpan(5, "hi", 0, 2, "hi"), TokenSpan(6, " there", 2, 8, "Ġthere"))
    assert backend.tokenize(GenerationRequest("hi there", add_special_tokens=False)).token_spans == spans
    tokenized = backend.tokenize(GenerationRequest(CHAT))
    assert (tokenized.text, tokenized.token_spans) == ("hi there", spans)
    assert upstream.bodies[0] == {
        "model": "up/model",
        "prompt": "hi there",
        "add_special_tokens": False,
        "return_token_strs": True,
    }
    assert upstream.bodies[1]["messages"] == [{"role": "user", "content": "hi"}]
    assert upstream.bodies[2] == {"model": "up/model", "tokens": [5, 6]}
    assert backend.encode_texts(["hi there"]) == [(5, 6)] and upstream.bodies[3] == upstream.bodies[0]


def test_ids_become_text_with_special_tokens_alone(backend: Backend) -> None:
    assert backend.detokenize([5, 6], show_special=True) == "hi there"
    with pytest.raises(NotImplementedHere, match="set tokenizer_base_model"):
        backend.detokenize([5, 6], show_special=False)
    with pytest.raises(NotImplementedHere):
        backend.tokenizer_config()
    with pytest.raises(NotImplementedHere):
        backend.tokenize(GenerationRequest((5, 6)))


@pytest.mark.parametrize("value", [{"tokens": ["5"]}, IDS | {"token_strs": ["hi"]}, [], None])
def test_an_answer_of_another_form_is_refused(value: Any, upstream: FakeUpstream, backend: Backend) -> None:
    upstream.reply = document(value)
    with pytest.raises(Unavailable, match="no tokens"):
        backend.tokenize(GenerationRequest("hi"))


def test_a_server_without_the_route_shares_no_tokenizer(upstream: FakeUpstream, backend: Backend) -> None:
    upstream.reply = document({"detail": "Not Found"}, 404)
    with pytest.raises(NotImplementedHere, match="does not share its tokenizer"):
        backend.tokenize(GenerationRequest("hi"))


def test_an_older_server_has_ids_alone(upstream: FakeUpstream, backend: Backend) -> None:
    upstream.reply = document(IDS)
    assert [each.id for each in backend.tokenize(GenerationRequest("hi there")).token_spans] == [5, 6]


@pytest.mark.parametrize(
    ("text", "names", "places"),
    [
        ("hi there", ["<s>", "hi", "Ġthere"], [(0, 0), (0, 2), (2, 8)]),
        ("hi there", ["<s>", "▁hi", "▁there"], [(0, 0), (0, 2), (2, 8)]),
        ("é é", ["Ã©", "ĠÃ", "©"], [(0, 1), (1, 3), (2, 3)]),
        ("a\n€", ["▁a", "<0x0A>", "<0xE2>", "<0x82>", "<0xAC>"], [(0, 1), (1, 2), (2, 3), (2, 3), (2, 3)]),
        ("é你", ["é", "你"], [(0, 1), (1, 2)]),
        ("Hi", ["hi"], [(0, 0)]),
        ("", ["<s>"], [(0, 0)]),
    ],
)
def test_each_token_is_found_at_its_place_in_the_text(
    text: str, names: list[str], places: list[tuple[int, int]]
) -> None:
    spans = list(locate_names(text, range(len(names)), names))
    assert [(each.start, each.stop) for each in spans] == places
