"""tokenizer_base_model: texts are tokenized here, for a server that does not share its tokenizer."""

import base64
from pathlib import Path

import pytest

from inference.backend import Backend
from inference.errors import BadRequest
from inference.remote.open_member import CannotOpen
from inference.types import GenerationRequest, Tool
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, document

DEMO = Path(__file__).parents[3] / "models/demo"
TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.fixture
def backend(open_upstream: OpenModel) -> Backend:
    return open_upstream("openai_chat", tokenizer_base_model=str(DEMO))


def test_texts_become_ids_and_back(backend: Backend) -> None:
    tokenized = backend.tokenize(GenerationRequest("The capital", add_special_tokens=False))
    ids = [span.id for span in tokenized.token_spans]
    assert len(ids) > 1 and backend.detokenize(ids) == "The capital"
    assert backend.encode_texts(["The capital", "The"]) == [tuple(ids), tuple(ids[:1])]
    with pytest.raises(BadRequest):
        backend.detokenize([1 << 30])


def test_a_conversation_has_the_template_of_the_folder(backend: Backend) -> None:
    template = backend.tokenizer_config()["chat_template"]
    text = backend.tokenize(GenerationRequest(CHAT)).text
    assert template and "hi" in text and text != "hi"


@pytest.mark.parametrize(
    ("kind", "template"),
    [("vllm", TEMPLATE), ("tgi", base64.b64encode(TEMPLATE.encode()).decode())],
)
def test_a_conversation_becomes_text_by_the_template_of_the_entry(
    kind: str, template: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = document({"error": "enough"}, 400)
    backend = open_upstream(kind, tokenizer_base_model=str(DEMO), chat_template=template)
    with pytest.raises(BadRequest, match="enough"):
        list(backend.generate(GenerationRequest(CHAT)))
    body = upstream.bodies[-1]
    assert body.get("prompt", body.get("inputs")) == "<user>hi", "the server begins texts itself"
    with pytest.raises(BadRequest, match="tools"):
        backend.generate(GenerationRequest(CHAT, tools=(Tool("f", "", {}),)))


@pytest.mark.parametrize("name", ["tiktoken", "acme/large", "/nowhere", str(DEMO.parent)])
def test_what_is_no_folder_of_a_tokenizer_is_refused_at_the_start(
    name: str, open_upstream: OpenModel
) -> None:
    with pytest.raises(CannotOpen, match="tokenizer_base_model"):
        open_upstream("openai_chat", tokenizer_base_model=name)


def test_a_chat_template_needs_a_tokenizer(open_upstream: OpenModel) -> None:
    with pytest.raises(CannotOpen, match="chat_template needs the tokenizer"):
        open_upstream("vllm", chat_template="{{ messages }}")
