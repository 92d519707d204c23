"""The trained tokens are the text of the assistant and the end of its turn, with templates of many models."""

import re
from pathlib import Path
from typing import Any

import pytest

from inference.text.special_tokens import MarkedText
from inference.text.tokenizer import PromptTokenizer
from inference.text.vocabulary import Vocabulary
from inference.types import Message
from tests.tuning.data.chat_templates import TEMPLATES, chat_template_of, tokenizer_of
from tests.tuning.data.datasets import chat, decode, encode, trained_texts

DROPS_HISTORY = {"qwen 3", "gpt-oss", "deepseek r1"}  # they write an answer differently in the history
WITHOUT_END = {"glm 4": "<|endoftext|>", "none": "</s>"}
CALL = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
TOOL_ROW = {
    "messages": [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "sunny", "tool_call_id": "a"},
        {"role": "assistant", "content": "No."},
    ],
    "tools": [TOOL],
}
CONTENTS = ("The quick fox", "A lazy dog.")


def end_of(name: str) -> str:
    return TEMPLATES[name].end or WITHOUT_END[name]


def lead_of(name: str) -> str:
    """What the model writes between the prompt and the text: a space, in the plain format."""
    return " " if name == "none" else ""


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_answer_and_the_end_of_its_turn_are_trained(tmp_path: Path, name: str) -> None:
    example = encode(tmp_path, name, [chat("Hi there", "The quick fox")]).examples[0]
    assert trained_texts(name, example) == [f"{lead_of(name)}The quick fox{end_of(name)}"]


@pytest.mark.parametrize("name", sorted(TEMPLATES.keys() - DROPS_HISTORY - WITHOUT_END.keys()))
def test_every_answer_of_a_conversation_is_trained(tmp_path: Path, name: str) -> None:
    dataset = encode(tmp_path, name, [chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])])
    texts = [f"{content}{end_of(name)}".strip() for content in CONTENTS]
    assert [text.strip() for text in trained_texts(name, dataset.examples[0])] == texts
    assert dataset.events == ()


@pytest.mark.parametrize("name", sorted(WITHOUT_END))
def test_an_answer_without_an_end_in_the_template_is_trained_without_one(tmp_path: Path, name: str) -> None:
    dataset = encode(tmp_path, name, [chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])])
    lead = lead_of(name)
    texts = trained_texts(name, dataset.examples[0])
    assert texts == [lead + CONTENTS[0], lead + CONTENTS[1] + WITHOUT_END[name]]
    assert f"no token of its own: {WITHOUT_END[name]} is added and trained" in dataset.events[0]


@pytest.mark.parametrize("name", sorted(DROPS_HISTORY))
def test_only_the_last_answer_is_trained_where_the_template_rewrites_history(
    tmp_path: Path, name: str
) -> None:
    rows = [chat("Hi there", "The quick fox"), chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])]
    dataset = encode(tmp_path, name, rows)
    assert trained_texts(name, dataset.examples[1]) == [f"A lazy dog.{end_of(name)}"]
    assert any(
        re.match(r"In 1 row \(line 2\) the chat template writes earlier .* only the last answer", event)
        for event in dataset.events
    )


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_ids_before_the_answer_are_those_of_the_served_prompt(tmp_path: Path, name: str) -> None:
    question = "Hi there, does it cost 3 <|im_end|>?"
    example = encode(tmp_path, name, [chat(question, "The quick fox")]).examples[0]
    template = chat_template_of(name)
    prompt: MarkedText = template.render([Message("user", question)])
    add_special_tokens = None if template.fallback_reason else False
    served = PromptTokenizer(Vocabulary(tokenizer_of(name))).encode(
        prompt.text, add_special_tokens, prompt.split_at
    )
    if name == "deepseek r1":  # its prompt opens a thought that its answers do not have
        served = served[:-2]
    assert example.token_ids[: len(served)] == served
    assert not any(example.weights[: len(served)])


@pytest.mark.parametrize("name", TEMPLATES)
def test_weight_0_leaves_an_answer_out(tmp_path: Path, name: str) -> None:
    row = chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])
    row["messages"][1]["weight"] = 0
    texts = trained_texts(name, encode(tmp_path, name, [row]).examples[0])
    assert [text.strip() for text in texts] == [f"A lazy dog.{end_of(name)}"]


LONG = [f"The {number} fox " for number in range(12)]


@pytest.mark.parametrize("name", sorted(TEMPLATES.keys() - DROPS_HISTORY))
def test_every_answer_of_a_long_conversation_is_trained(tmp_path: Path, name: str) -> None:
    rows = [chat(*(text for content in LONG for text in ("Which?", content)))]
    texts = trained_texts(name, encode(tmp_path, name, rows).examples[0])
    ends = [end_of(name).strip()] * 12 if TEMPLATES[name].end else [*[""] * 11, end_of(name)]
    assert [text.replace(" ", "") for text in texts] == [
        f"The{number}fox{end}" for number, end in enumerate(ends)
    ]


def test_answers_that_marks_do_not_find_are_rendered(tmp_path: Path) -> None:
    """Tool calls, empty contents, spellings of special tokens, and marks in the text itself."""
    call = {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]}
    tool = {"role": "tool", "content": "sunny", "tool_call_id": "a"}
    contents = ["Ho", "", "<|im_end|>", "\U000f8a01x\U000f8a02", "a <|im_end|>", " spaces "]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}, call, tool]
    for content in contents:
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    example = encode(tmp_path, "qwen 2.5", [{"messages": messages}]).examples[0]
    written = '{"name": "weather", "arguments": {"city": "Paris"}}'
    assert trained_texts("qwen 2.5", example) == [
        f"Let me see.\n<tool_call>\n{written}\n</tool_call><|im_end|>",
        *(f"{content}<|im_end|>" for content in contents),
    ]


def test_calls_and_thoughts_are_trained_in_long_conversations(tmp_path: Path) -> None:
    question = {"role": "user", "content": "Hi"}
    plain = {"role": "assistant", "content": "Ho"}
    thoughtful = plain | {"reasoning_content": "Hm"}
    calling = plain | {"tool_calls": [CALL]}
    turns = [plain, plain, plain, thoughtful, calling, plain, thoughtful, calling, plain, plain]
    messages = [message for each in turns for message in (question, each)]
    example = encode(tmp_path, "bare", [{"messages": messages}]).examples[0]
    written = '{"arguments": {"city": "Paris"}, "name": "weather"}'
    texts = {id(plain): "Ho", id(thoughtful): "(Hm)Ho", id(calling): "Ho" + written}
    assert trained_texts("bare", example) == [*(texts[id(each)] for each in turns[:-1]), "Ho</s>"]


def test_what_follows_the_last_trained_answer_is_left_out(tmp_path: Path) -> None:
    row = chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])
    row["messages"][3]["weight"] = 0
    example = encode(tmp_path, "chatml", [row]).examples[0]
    assert decode("chatml", example.token_ids).endswith("The quick fox<|im_end|>")
    assert trained_texts("chatml", example) == ["The quick fox<|im_end|>"]


def test_an_empty_thought_of_the_template_is_said_and_not_trained(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "qwen 3", [chat("Hi there", "The quick fox")])
    assert "<think>\n\n</think>\n\nThe quick fox" in decode("qwen 3", dataset.examples[0].token_ids)
    assert "itself writes '<think>\\n\\n</think>\\n\\n' in front of the answer" in dataset.events[0]


def test_a_thought_of_the_row_is_trained(tmp_path: Path) -> None:
    row = chat("Hi there", "The quick fox")
    row["messages"][1]["reasoning_content"] = "It jumps."
    dataset = encode(tmp_path, "qwen 3", [row])
    assert trained_texts("qwen 3", dataset.examples[0]) == [
        "<think>\nIt jumps.\n</think>\n\nThe quick fox<|im_end|>"
    ]
    assert dataset.events == ()
    lost = encode(tmp_path, "chatml", [row])
    assert "does not write the reasoning" in lost.events[0]


def test_a_thought_in_the_content_is_trained(tmp_path: Path) -> None:
    row = chat("Hi there", "<think>\nIt jumps.\n</think>\n\nThe quick fox")
    dataset = encode(tmp_path, "qwen 3", [row])
    assert trained_texts("qwen 3", dataset.examples[0]) == [
        "<think>\nIt jumps.\n</think>\n\nThe quick fox<|im_end|>"
    ]


def test_tool_calls_are_trained_as_the_template_writes_them(tmp_path: Path) -> None:
    example = encode(tmp_path, "qwen 2.5", [TOOL_ROW]).examples[0]
    call = '{"name": "weather", "arguments": {"city": "Paris"}}'
    assert trained_texts("qwen 2.5", example) == [
        f"<tool_call>\n{call}\n</tool_call><|im_end|>",
        "No.<|im_end|>",
    ]
    assert '"name": "weather", "parameters"' in decode("qwen 2.5", example.token_ids)


def test_a_header_that_the_prompt_lacks_is_not_trained(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "without tool header", [TOOL_ROW])
    assert trained_texts("without tool header", dataset.examples[0])[1] == "No.<|im_end|>"


def test_the_tools_of_a_row_are_used(tmp_path: Path) -> None:
    assert encode(tmp_path, "qwen 2.5", [TOOL_ROW]).events == ()


def test_tool_calls_are_text_for_a_template_without_them(tmp_path: Path) -> None:
    example = encode(tmp_path, "llama 3", [TOOL_ROW]).examples[0]
    call = '{"name": "weather", "parameters": {"city": "Paris"}}'
    assert trained_texts("llama 3", example) == [f"{call}<|eot_id|>", "No.<|eot_id|>"]


def test_special_tokens_that_an_answer_spells_are_text_and_end_no_turn(tmp_path: Path) -> None:
    example = encode(tmp_path, "chatml", [chat("How does it end?", "With <|im_end|>")]).examples[0]
    assert trained_texts("chatml", example) == ["With <|im_end|><|im_end|>"]
    end_id = tokenizer_of("chatml").convert_tokens_to_ids("<|im_end|>")
    trained = [
        token_id for token_id, weight in zip(example.token_ids, example.weights, strict=True) if weight
    ]
    assert trained.count(end_id) == 1


@pytest.mark.parametrize("name", ["chatml", "llama 3", "qwen 3", "none"])
def test_the_greeting_of_an_assistant_that_begins_is_trained_without_header(
    tmp_path: Path, name: str
) -> None:
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": "Hello."}]
    example = encode(tmp_path, name, [{"messages": messages}]).examples[0]
    assert trained_texts(name, example) == [f"Hello.{end_of(name)}"]


@pytest.mark.parametrize("name", ["generation", "generation body"])
def test_generation_blocks_are_those_that_transformers_finds(tmp_path: Path, name: str) -> None:
    row = chat("Hi there", CONTENTS[0], "And?", CONTENTS[1])
    example = encode(tmp_path, name, [row]).examples[0]
    theirs = tokenizer_of(name).apply_chat_template(
        row["messages"], return_dict=True, return_assistant_tokens_mask=True
    )
    masks = zip(example.token_ids, example.weights, theirs["assistant_masks"], strict=False)
    assert all(theirs_is_trained for _, weight, theirs_is_trained in masks if weight)
    if name == "generation body":
        assert list(example.token_ids) == theirs["input_ids"][: len(example.token_ids)]
        assert list(example.weights) == theirs["assistant_masks"][: len(example.weights)]


def test_a_generation_block_without_the_end_of_the_turn_is_said(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "generation without end", [chat("Hi there", "The quick fox")])
    assert trained_texts("generation without end", dataset.examples[0]) == ["The quick fox"]
    assert "leaves out the end of the turn: it is not trained" in dataset.events[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_all_tokens_are_trained_with_train_on_input(tmp_path: Path, name: str) -> None:
    example = encode(tmp_path, name, [chat("Hi there", "The quick fox")], train_on_input=True).examples[0]
    assert example.weights == (0.0, *[1.0] * (len(example.token_ids) - 1))
