"""The model in models/demo: its answers, its stop tokens, its files."""

import json
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from scripts.demo_model.corpus import assistant, user
from scripts.demo_model.exam import Item, items, score, sit
from scripts.demo_model.knowledge import KNOWLEDGE
from scripts.demo_model.phrasing import expand
from scripts.demo_model.small_talk import TALK
from scripts.demo_model.topics import Topic

HOME = Path(__file__).resolve().parents[2] / "models" / "demo"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
FRANCE = "The capital of France is Paris."
RESULT = "The weather in Paris is: temperature 21."
CALL = '{"name": "get_weather", "parameters": {"city": "Paris"}}'


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(HOME)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(HOME, dtype=torch.float32).eval()


def answer_questions(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *questions: Item
) -> dict[str, str]:
    """The model's answer to each question, by subject; an answer that does not end by itself is an error."""
    marks = list(sit(model, tokenizer, questions))
    assert all(mark.is_finished for mark in marks)
    return {mark.item.subject: mark.answer_text for mark in marks}


def test_questions_in_unseen_words_are_answered_right(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    exam = [item for item in items(seed=7, each=3) if item.subject != "long counts"]
    results = score(list(sit(model, tokenizer, exam)))
    num_right, total = (sum(column) for column in zip(*results.values(), strict=True))
    assert num_right >= 0.95 * total, results


def test_the_capital_of_france_is_known_in_every_phrasing(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    exam = [item for item in items(seed=0, each=16) if item.subject == "france"]
    wrong = [
        (mark.item.prompt, mark.answer_text) for mark in sit(model, tokenizer, exam) if not mark.is_right
    ]
    assert not wrong


def test_a_weather_question_calls_the_tool_if_there_is_one(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    weather = [user("What's the weather in Paris?")]
    result = {"role": "tool", "content": '{"temperature": 21}'}
    replies = answer_questions(
        model,
        tokenizer,
        Item("tool", weather, CALL, [WEATHER]),
        Item("no tool", weather, "I cannot look up the weather without a tool."),
        Item("other question", [user("What's the capital of France?")], FRANCE, [WEATHER]),
        Item("result", [*weather, assistant(CALL), result], RESULT, [WEATHER]),
    )
    assert replies == {
        "tool": CALL,
        "no tool": "I cannot look up the weather without a tool.",
        "other question": FRANCE,
        "result": RESULT,
    }


def test_a_question_may_refer_to_the_one_before(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    history = [user("What is the capital of France?"), assistant("The capital of France is Paris.")]
    replies = answer_questions(
        model,
        tokenizer,
        Item("of Italy", [*history, user("And of Italy?")], "The capital of Italy is Rome."),
        Item("Spain", [*history, user("And Spain?")], "The capital of Spain is Madrid."),
    )
    assert replies == {
        "of Italy": "The capital of Italy is Rome.",
        "Spain": "The capital of Spain is Madrid.",
    }


def test_an_answer_can_be_requested_as_json(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    question = user("Answer in JSON with the key capital: What is the capital of France?")
    replies = answer_questions(model, tokenizer, Item("json", [question], '{"capital": "Paris"}'))
    assert json.loads(replies["json"]) == {"capital": "Paris"}


def test_counting_to_a_hundred_reaches_it(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    hundred = ", ".join(map(str, range(1, 101))) + "."
    replies = answer_questions(model, tokenizer, Item("count", [user("Count from 1 to 100")], hundred))
    assert replies["count"] == hundred


@pytest.mark.parametrize(
    "text",
    ["plain words", "Zürich, 東京, Київ", "🙂👩‍👩‍👧 e\u0301", " \n\t  two  spaces\r\n", "\x00\x7f\ufffd"],
)
def test_any_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids[1:]) == text


def test_every_token_has_a_row_and_a_text(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    assert model.config.vocab_size == len(tokenizer)
    assert all(tokenizer.convert_ids_to_tokens(index) for index in range(len(tokenizer)))


def test_the_stop_tokens_are_configured(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    ends = tokenizer.convert_tokens_to_ids(["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"])
    assert sorted(model.generation_config.eos_token_id) == sorted(ends)


def test_the_template_takes_arguments_as_text_or_as_an_object(tokenizer: PreTrainedTokenizerFast) -> None:
    def rendered(arguments: object) -> str:
        call = {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        return tokenizer.apply_chat_template(
            [user("?"), {"role": "assistant", "tool_calls": [call]}], tokenize=False
        )

    assert rendered({"city": "Paris"}) == rendered('{"city": "Paris"}')
    assert rendered({"city": "Paris"}).endswith(f"{CALL}<|eot_id|>")


def test_the_folder_is_small() -> None:
    assert sum(file.stat().st_size for file in HOME.iterdir()) <= 10_000_000


@pytest.mark.parametrize("topic", KNOWLEDGE + TALK, ids=lambda topic: topic.name)
def test_the_exam_uses_phrases_that_training_does_not_use(topic: Topic) -> None:
    for learnt, held_out in (
        (topic.phrasings, topic.held_out),
        (topic.follow_ups, topic.held_out_follow_ups),
    ):
        trained, examined = (
            {_bare(phrase) for phrase in _expansions(phrasings)} for phrasings in (learnt, held_out)
        )
        assert not examined & trained


def _expansions(phrasings: tuple[str, ...]) -> set[str]:
    chance = Random(0)
    return {expand(template, chance) for template in phrasings for _ in range(200)}


def _bare(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum() or letter in " {}").strip()
