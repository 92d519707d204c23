from typing import Any

import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from inference.errors import BadRequest, TooLong
from inference.local.prompt import Prompts
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Message, Tool
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
