"""h2oGPT's prompt types: conversations as text, by name and by number."""

from typing import Any

import pytest

from inference.errors import BadRequest
from inference.events import Finished, Token
from inference.remote.open_member import CannotOpen
from inference.remote.upstreams.prompt_types import find_prompt_type, prompt_types, render
from inference.types import GenerationRequest, Message, Tool
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply
from tests.remote.openai_chunks import DONE, text_chunk

TURNS = ("hi", "hello", "bye")


@pytest.mark.parametrize(
    ("name", "system", "prompt"),
    [
        ("plain", "", "hi\nhello\nbye\n"),
        ("human_bot", "", "<human>: hi\n<bot>: hello\n<human>: bye\n<bot>:"),
        ("vicuna11", "Be brief.", "Be brief. USER: hi ASSISTANT: hello</s>USER: bye ASSISTANT:"),
        (
            "llama2",
            "Be brief.",
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nhi [/INST] hello </s><s>[INST] bye [/INST]",
        ),
        ("zephyr", "", "<|user|>\nhi</s>\n<|assistant|>\nhello</s>\n<|user|>\nbye</s>\n<|assistant|>\n"),
    ],
)
def test_a_conversation_is_rendered_as_its_type_has_it(name: str, system: str, prompt: str) -> None:
    prompt_type = find_prompt_type(name)
    assert prompt_type and render(prompt_type, TURNS, system) == prompt


def test_every_type_has_its_number_and_renders_every_text() -> None:
    assert len(prompt_types()) == 71
    for name, prompt_type in prompt_types().items():
        assert find_prompt_type(str(prompt_type.number)) is find_prompt_type(name)
        text = render(prompt_type, TURNS, "Be brief.")
        assert all(each in text for each in TURNS) and "{S}" not in text


def test_a_text_of_the_user_is_no_place_for_the_system_text() -> None:
    prompt_type = find_prompt_type("vicuna11")
    assert prompt_type and render(prompt_type, ["{S}"], "secret") == "secret USER: {S} ASSISTANT:"


def test_a_server_that_completes_text_gets_a_conversation_as_text(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([text_chunk("hello"), text_chunk("", reason="stop"), DONE])
    list(open_upstream("vllm", prompt_type="vicuna11").generate(GenerationRequest(CHAT, stop=("x",))))
    body = upstream.bodies[-1]
    assert body["prompt"] == " USER: hi ASSISTANT:" and body["stop"] == ["x", "ASSISTANT:", "</s>"]


@pytest.mark.parametrize(
    ("prompt_dict", "prompt", "stops"),
    [
        (
            {
                "promptA": "unused",
                "promptB": "Chat.\n",
                "PreInstruct": "Q: ",
                "PreResponse": "A:",
                "terminate_response": ["Q:"],
            },
            "Chat.\nQ: hi\nA:hello\nQ: bye\nA:",
            ["Q:", "A:"],
        ),
        ({"PreInstruct": "Q: ", "PreResponse": None, "chat_sep": " ", "chat_turn_sep": None}, None, None),
    ],
)
def test_a_prompt_dict_gives_the_texts_between_the_turns(
    prompt_dict: dict[str, Any],
    prompt: str | None,
    stops: list[str] | None,
    upstream: FakeUpstream,
    open_upstream: OpenModel,
) -> None:
    upstream.reply = Reply([text_chunk("hello"), text_chunk("", reason="stop"), DONE])
    chat = (Message("user", "hi"), Message("assistant", "hello"), Message("user", "bye"))
    list(open_upstream("vllm", prompt_dict=prompt_dict).generate(GenerationRequest(chat)))
    body = upstream.bodies[-1]
    assert (body["prompt"], body.get("stop")) == (prompt or "Q: hi helloQ: bye ", stops)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (GenerationRequest((*CHAT, *CHAT)), "messages"),
        (GenerationRequest((*CHAT, Message("assistant", "a"))), "messages"),
        (GenerationRequest(CHAT, tools=(Tool("f", "", {}),)), "tools"),
    ],
)
def test_what_a_prompt_type_has_no_place_for(
    request_: GenerationRequest, field: str, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest) as refusal:
        open_upstream("vllm", prompt_type="24").generate(request_)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("base_model", "prompt"),
    [
        ("h2oai/h2ogpt-4096-llama2-7b-chat", "<s>[INST] hi [/INST]"),
        (" huggingfaceh4/Zephyr-7B-beta ", "<|user|>\nhi</s>\n<|assistant|>\n"),
        ("openchat/openchat_3.5", "GPT4 Correct User: hi<|end_of_turn|>GPT4 Correct Assistant:"),
        ("gpt2", "hi\n"),
    ],
)
def test_without_a_type_a_model_has_that_of_its_name(
    base_model: str, prompt: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([text_chunk("hello"), text_chunk("", reason="stop"), DONE])
    list(open_upstream("vllm", base_model=base_model).generate(GenerationRequest(CHAT)))
    assert upstream.bodies[-1]["prompt"] == prompt


def test_a_name_counts_only_without_a_type_and_for_a_server_that_completes_text(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([text_chunk("hello"), text_chunk("", reason="stop"), DONE])
    list(open_upstream("vllm", base_model="gpt2", prompt_type="24").generate(GenerationRequest(CHAT)))
    list(open_upstream("vllm_chat", base_model="gpt2").generate(GenerationRequest(CHAT)))
    assert upstream.bodies[0]["prompt"] == " USER: hi ASSISTANT:" and "messages" in upstream.bodies[1]
    with pytest.raises(BadRequest, match="completes text"):
        open_upstream("vllm", base_model="gpt-4o").generate(GenerationRequest(CHAT))


def test_a_model_has_one_type() -> None:
    names = [name for each in prompt_types().values() for name in each.base_models]
    assert len(names) == len(set(names)) > 200 and "" not in names


@pytest.mark.parametrize(
    ("prompt_type", "texts", "cleaned_text"),
    [
        ("human_bot", [" ", " one"], " one"),
        ("human_bot", ["<pad> a", " b"], "a b"),
        ("vicuna11", [" a</", "s>b<|endof", "text|><pa", "d> 1 <", " 2 </p>", "<pad"], " ab 1 < 2 </p><pad"),
        ("plain", ["<|endoftext|>"], ""),
    ],
)
def test_special_tokens_are_cut_from_answers(
    prompt_type: str, texts: list[str], cleaned_text: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([*map(text_chunk, texts), text_chunk("", reason="stop"), DONE])
    backend = open_upstream("vllm", prompt_type=prompt_type)
    events = list(backend.generate(GenerationRequest(CHAT)))
    assert "".join(each.text for each in events if isinstance(each, Token | Finished)) == cleaned_text
    completed = list(backend.generate(GenerationRequest("hi")))
    text = "".join(each.text for each in completed if isinstance(each, Token | Finished))
    assert text == "".join(texts), "a text that a client has written itself is answered as it is"


def test_an_unknown_type_is_refused_at_the_start(open_upstream: OpenModel) -> None:
    with pytest.raises(CannotOpen, match="prompt_type 'nonsense'"):
        open_upstream("vllm", prompt_type="nonsense")
