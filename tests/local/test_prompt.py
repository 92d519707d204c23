from dataclasses import replace
from typing import Any

import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from inference.errors import BadRequest, TooLong
from inference.local.prompt import Prompts
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Message, Template, Tool
from tests.text.tokenizers_of_three_kinds import byte_level, tokenizer


def beginning(template: str, **names: str) -> Any:
    """A tokenizer that puts special tokens around a text: "<s> $A", "$A </s>", …"""
    made = byte_level()
    specials = [(name, made.token_to_id(name)) for name in ("<s>", "</s>")]
    made.post_processor = processors.Sequence(
        [processors.ByteLevel(), processors.TemplateProcessing(single=template, special_tokens=specials)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def prompts(words: Any, encodes: bool = False) -> Prompts:
    return Prompts(Vocabulary(words), context=16, vocab=400, encodes=encodes)


LLAMA = beginning("<s> $A", bos_token="<s>", eos_token="</s>")


def tokens(words: Any, prompt: Any, encodes: bool = False) -> list[str]:
    return words.convert_ids_to_tokens(prompts(words, encodes).ids(GenerationRequest(prompt)))


def test_a_text_begins_as_the_tokenizer_begins_one() -> None:
    assert tokens(LLAMA, "the") == ["<s>", *LLAMA.tokenize("the")]
    assert tokens(tokenizer("byte-level"), "the") == LLAMA.tokenize("the")


def test_a_text_that_brings_its_beginning_gets_no_second() -> None:
    assert tokens(LLAMA, "<s>the") == ["<s>", *LLAMA.tokenize("the")]


def test_a_text_to_go_on_with_is_not_ended_but_one_to_encode_is() -> None:
    words = beginning("<s> $A </s>", bos_token="<s>", eos_token="</s>")
    assert tokens(words, "the") == ["<s>", *words.tokenize("the")]
    assert tokens(words, "the", encodes=True) == ["<s>", *words.tokenize("the"), "</s>"]


def test_an_empty_text_is_the_token_that_begins_one() -> None:
    assert tokens(LLAMA, "") == ["<s>"]
    assert tokens(tokenizer("byte-level"), "") == ["<s>"]
    with pytest.raises(BadRequest, match="prompt is empty"):
        tokens(beginning("$A"), "")


def test_ids_are_taken_as_they_are() -> None:
    assert prompts(LLAMA).ids(GenerationRequest([5, 6])) == (5, 6)


@pytest.mark.parametrize("ids", [[400], [-1], [5, "6"], [1.0], [True]])
def test_ids_outside_the_vocabulary_are_refused(ids: Any) -> None:
    with pytest.raises(BadRequest, match="prompt needs token ids from 0 to 399"):
        prompts(LLAMA).ids(GenerationRequest(ids))


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(BadRequest, match="prompt is empty"):
        prompts(LLAMA).ids(GenerationRequest([]))


def test_a_text_far_too_long_is_refused_before_it_is_read() -> None:
    class Unreadable:
        def __getattr__(self, name: str) -> Any:
            if name == "encode":
                return lambda text, **_: [1] if len(text) < 100 else pytest.fail("was read")
            return getattr(LLAMA, name)

    with pytest.raises(TooLong, match="prompt has more than 1024 characters"):
        prompts(Unreadable()).ids(GenerationRequest("x" * 1025))


def test_a_chat_is_refused_by_its_own_name() -> None:
    with pytest.raises(TooLong) as caught:
        prompts(LLAMA).ids(GenerationRequest([Message("user", "x" * 2000)]))
    assert caught.value.field == "messages"


@pytest.mark.parametrize(
    ("choice", "told"), [("auto", "[function_name("), ("required", '{"name": "function_name"'), ("none", "")]
)
def test_tools_are_told_as_they_are_to_be_called(choice: str, told: str) -> None:
    tool = Tool("f", "does it", {"type": "object", "properties": {}})
    request = GenerationRequest(
        [Message("user", "the fox")], tools=(tool,), tool_choice=choice, tool_format="python_list"
    )
    text = LLAMA.decode(Prompts(Vocabulary(LLAMA), context=999, vocab=400, encodes=False).ids(request))
    assert told in text
    assert ("does it" in text) == (choice != "none")


def test_more_messages_than_the_context_has_tokens_are_refused_before_they_are_told() -> None:
    with pytest.raises(TooLong, match="messages has more than 1024 characters"):
        prompts(LLAMA).ids(GenerationRequest([Message("user", "")] * 17))


@pytest.mark.parametrize(
    ("prompt", "field"), [("a\ud83d", "prompt"), ([Message("user", "\udc00a")], "messages")]
)
def test_half_a_surrogate_pair_is_refused(prompt: Any, field: str) -> None:
    with pytest.raises(BadRequest, match="half of a surrogate pair") as caught:
        prompts(LLAMA).ids(GenerationRequest(prompt))
    assert caught.value.field == field


def test_a_chat_without_a_template_begins_as_a_text() -> None:
    ids = Prompts(Vocabulary(LLAMA), context=64, vocab=400, encodes=False).ids(
        GenerationRequest([Message("user", "the fox")])
    )
    assert LLAMA.decode(ids) == "<s>User: the fox\n\nAssistant:"


CHAT = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>{% endif %}"
)


def chatting() -> Any:
    words = beginning("<s> $A", bos_token="<s>", eos_token="</s>")
    words.chat_template = CHAT
    return words


ASK = GenerationRequest([Message("user", "the fox"), Message("assistant", "and")])


@pytest.mark.parametrize(("special", "told"), [(None, "<s>the"), (True, "<s>the</s>"), (False, "the")])
def test_special_tokens_are_added_to_a_text_as_asked(special: bool | None, told: str) -> None:
    words = beginning("<s> $A </s>", bos_token="<s>", eos_token="</s>")
    ids = prompts(words).ids(GenerationRequest("the", special=special))
    assert words.decode(ids) == told


@pytest.mark.parametrize("special", [None, True, False])
def test_a_template_brings_its_own_unless_more_are_asked(special: bool | None) -> None:
    words = chatting()
    made = Prompts(Vocabulary(words), context=64, vocab=400, encodes=False)
    told = words.decode(made.ids(replace(ASK, special=special)))
    assert told == "<s>" * (special is True) + "<s>user: the fox</s><s>assistant: and</s><s>"


def test_a_conversation_goes_through_the_template_as_asked() -> None:
    words = chatting()
    made = Prompts(Vocabulary(words), context=64, vocab=400, encodes=False)
    ended = words.decode(made.ids(replace(ASK, template=Template(opens=False))))
    assert ended == "<s>user: the fox</s><s>assistant: and</s>"
    assert words.decode(made.ids(replace(ASK, template=Template(continues=True)))) == ended.removesuffix(
        "</s>"
    )


@pytest.mark.parametrize("keep", [1, 3, 15, 16, 99])
def test_the_last_tokens_of_a_prompt_are_kept(keep: int) -> None:
    words = LLAMA
    whole = (words.bos_token_id, *words.encode("the quick", add_special_tokens=False))
    for prompt in ("the quick", list(whole)):
        assert prompts(words).ids(GenerationRequest(prompt, truncate=keep)) == whole[-keep:]


def test_what_is_truncated_is_not_too_long() -> None:
    ids = list(range(10, 40))
    assert prompts(LLAMA).ids(GenerationRequest(ids, truncate=15)) == tuple(ids[-15:])
    with pytest.raises(TooLong):
        prompts(LLAMA).ids(GenerationRequest(ids, truncate=16))


def test_a_text_longer_than_any_prompt_is_cut_before_it_is_read() -> None:
    kept = prompts(LLAMA).ids(GenerationRequest("x" * 10**6 + " the fox", truncate=4))
    assert LLAMA.decode(kept).endswith("the fox")
    with pytest.raises(TooLong):
        prompts(LLAMA).ids(GenerationRequest("x" * 10**6))


@pytest.mark.parametrize("keep", [0, -1])
def test_nothing_is_no_prompt(keep: int) -> None:
    with pytest.raises(BadRequest, match="truncate must be at least 1"):
        prompts(LLAMA).ids(GenerationRequest("the", truncate=keep))


REQUESTS = {
    "text": GenerationRequest("the quick brown fox"),
    "cut": GenerationRequest("the quick brown fox", truncate=3),
    "closed": GenerationRequest("é 😀", special=True),
    "bare": GenerationRequest("é 😀", special=False),
    "empty": GenerationRequest(""),
    "ids": GenerationRequest([1, 60, 61, 2]),
    "ids, cut": GenerationRequest([1, 60, 61, 2], truncate=2),
    "chat": ASK,
    "chat, left open": replace(ASK, template=Template(continues=True)),
    "tools": replace(ASK, tools=(Tool("f", "", {}),), tool_choice="none"),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_tokenised_a_prompt_is_what_is_generated_from(request_: GenerationRequest) -> None:
    words = chatting()
    made = Prompts(Vocabulary(words), context=999, vocab=400, encodes=False)
    told = made.tokenized(request_)
    assert tuple(piece.id for piece in told.pieces) == made.ids(request_)
    for piece in told.pieces:
        if "\ufffd" not in piece.text and piece.stop > piece.start:
            assert told.text[piece.start : piece.stop].strip() == piece.text.strip()


def test_a_chat_is_tokenised_as_its_template_tells_it() -> None:
    made = Prompts(Vocabulary(chatting()), context=999, vocab=400, encodes=False)
    told = made.tokenized(ASK)
    assert told.text == "<s>user: the fox</s><s>assistant: and</s><s>"
    parts = [told.text[piece.start : piece.stop] for piece in told.pieces]
    assert "".join(parts) == told.text.replace(" ", "")  # this tokenizer leaves spaces out


def test_more_tokens_than_the_context_holds_are_told() -> None:
    told = prompts(LLAMA).tokenized(GenerationRequest("the fox " * 200))
    assert len(told.pieces) > 16
    with pytest.raises(TooLong):
        prompts(LLAMA).tokenized(GenerationRequest("x" * 400_001))
