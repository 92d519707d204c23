"""The columns of a row say its form."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.data.datasets import chat, decode, encode, make_encoder, trained_texts
from tuning.data.examples import InvalidDataset
from tuning.types import Method

USER = {"role": "user", "content": "Hi there"}
QUESTION = [USER]
GOOD, BAD = ({"role": "assistant", "content": content} for content in ("The quick fox", "A lazy dog."))
DIALOG = [USER, GOOD]
ANSWERED = "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\nThe quick fox<|im_end|>"

SUPERVISED: dict[str, dict[str, Any]] = {
    "messages": {"messages": DIALOG},
    "messages as JSON text": {"messages": json.dumps(DIALOG)},
    "dialog": {"dialog": DIALOG},
    "dialog as JSON text": {"dialog": json.dumps(DIALOG)},
    "sharegpt": {
        "conversations": [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "The quick fox"}]
    },
    "from and value in messages": {
        "messages": [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "The quick fox"}]
    },
    "instruct": {
        "chat_completion_input": QUESTION,
        "expected_answer": "The quick fox",
        "input_query": "Hi there",
    },
    "instruct as JSON text": {
        "chat_completion_input": json.dumps(QUESTION),
        "expected_answer": "The quick fox",
    },
    "alpaca": {"instruction": "Hi there", "input": "", "output": "The quick fox"},
    "input and output": {"input": "Hi there", "output": "The quick fox"},
    "question and answer": {"question": "Hi there", "answer": "The quick fox"},
    "messages of a prompt and a completion": {"prompt": QUESTION, "completion": [GOOD]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi there"}]}, GOOD]},
}


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_conversation_may_have_each_of_the_forms(tmp_path: Path, name: str) -> None:
    dataset = encode(tmp_path, "chatml", [SUPERVISED[name]])
    assert decode("chatml", dataset.examples[0].token_ids) == ANSWERED
    assert trained_texts("chatml", dataset.examples[0]) == ["The quick fox<|im_end|>"]
    assert dataset.events == ()


@pytest.mark.parametrize("content", ["", " \n", []])
def test_an_empty_answer_is_an_event(tmp_path: Path, content: Any) -> None:
    rows = [{"messages": DIALOG}, {"messages": [USER, {"role": "assistant", "content": content}]}]
    events = encode(tmp_path, "chatml", rows).events
    assert events == ("In 1 row (line 2) an answer is empty: only the end of its turn is trained.",)


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_a_call_may_have_no_arguments(tmp_path: Path, arguments: Any) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    dataset = encode(tmp_path, "qwen 3", [{"messages": [USER, {"role": "assistant", "tool_calls": [call]}]}])
    assert '{"name": "f", "parameters": {}}' in decode("qwen 3", dataset.examples[0].token_ids)


def test_an_alpaca_instruction_is_put_before_its_input(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "chatml", [{"instruction": "Translate.", "input": "Hi", "output": "Ho"}])
    assert "user\nTranslate.\n\nHi<|im_end|>" in decode("chatml", dataset.examples[0].token_ids)


def test_a_sharegpt_system_column_is_the_system_message(tmp_path: Path) -> None:
    row = {**SUPERVISED["sharegpt"], "system": "Be brief."}
    dataset = encode(tmp_path, "chatml", [row])
    assert decode("chatml", dataset.examples[0].token_ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n" + ANSWERED
    )


def test_of_a_completion_the_completion_and_an_end_token_are_trained(tmp_path: Path) -> None:
    example = encode(tmp_path, "mistral", [{"prompt": "The quick", "completion": " fox"}]).examples[0]
    assert trained_texts("mistral", example) == [" fox</s>"] or trained_texts("mistral", example) == [
        "fox</s>"
    ]
    assert example.weights == (
        *[0.0] * (len(example.weights) - example.num_trained_tokens),
        *[1.0] * example.num_trained_tokens,
    )


def test_an_end_token_that_the_completion_spells_is_not_doubled(tmp_path: Path) -> None:
    example = encode(tmp_path, "chatml", [{"prompt": "The quick", "completion": " fox</s>"}]).examples[0]
    assert trained_texts("chatml", example) == [" fox</s>"]


def test_all_of_a_text_is_trained(tmp_path: Path) -> None:
    example = encode(tmp_path, "chatml", [{"text": "The quick fox"}]).examples[0]
    assert decode("chatml", example.token_ids) == "The quick fox</s>"
    assert example.weights == (0.0, *[1.0] * (len(example.weights) - 1))


PREFERENCES: dict[str, dict[str, Any]] = {
    "openai": {"input": {"messages": QUESTION}, "preferred_output": [GOOD], "non_preferred_output": [BAD]},
    "messages": {"prompt": QUESTION, "chosen": [GOOD], "rejected": [BAD]},
    "a prompt as text": {"prompt": "Hi there", "chosen": [GOOD], "rejected": [BAD]},
    "a prompt that is repeated": {"prompt": "Hi there", "chosen": [USER, GOOD], "rejected": [USER, BAD]},
    "no prompt": {"chosen": [USER, GOOD], "rejected": [USER, BAD]},
    "messages and texts": {"prompt": QUESTION, "chosen": GOOD["content"], "rejected": BAD["content"]},
}


@pytest.mark.parametrize("method", ["dpo", "orpo"])
@pytest.mark.parametrize("name", PREFERENCES)
def test_a_preference_pair_may_have_each_of_the_forms(tmp_path: Path, name: str, method: Method) -> None:
    dataset = encode(tmp_path, "chatml", [PREFERENCES[name]], method)
    pair = dataset.pairs[0]
    assert trained_texts("chatml", pair.chosen) == ["The quick fox<|im_end|>"]
    assert trained_texts("chatml", pair.rejected) == ["A lazy dog.<|im_end|>"]
    assert decode("chatml", pair.chosen.token_ids) == ANSWERED
    assert (len(dataset), dataset.examples, pair.line) == (1, [], 1)


def test_texts_of_a_preference_pair_are_completions(tmp_path: Path) -> None:
    row = {"prompt": "The quick", "chosen": " fox", "rejected": " dog"}
    pair = encode(tmp_path, "chatml", [row], "dpo").pairs[0]
    assert trained_texts("chatml", pair.chosen) == [" fox</s>"]
    assert trained_texts("chatml", pair.rejected) == [" dog</s>"]


def test_only_what_differs_is_trained_in_a_pair_of_conversations(tmp_path: Path) -> None:
    shared = [USER, GOOD, {"role": "user", "content": "And?"}]
    row = {"chosen": [*shared, GOOD], "rejected": [*shared, BAD]}
    pair = encode(tmp_path, "chatml", [row], "dpo").pairs[0]
    assert trained_texts("chatml", pair.chosen) == ["The quick fox<|im_end|>"]
    assert trained_texts("chatml", pair.rejected) == ["A lazy dog.<|im_end|>"]


@pytest.mark.parametrize("method", ["dpo", "orpo", "kto"])
def test_a_pair_of_equal_answers_is_an_event(tmp_path: Path, method: Method) -> None:
    equal = {"prompt": QUESTION, "chosen": [GOOD], "rejected": [GOOD]}
    dataset = encode(tmp_path, "chatml", [equal, {**equal, "rejected": [BAD]}, equal], method)
    assert len(dataset) == (6 if method == "kto" else 3)
    sentence = "In 2 rows (lines 1, 3) the two answers are the same: such a pair teaches no preference."
    assert dataset.events == (sentence,)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "The quick", "chosen": " fox", "rejected": " fox"},
        {"prompt": QUESTION, "chosen": [GOOD], "rejected": [GOOD]},
        {"input": {"messages": QUESTION}, "preferred_output": [GOOD], "non_preferred_output": [GOOD]},
    ],
)
def test_a_file_without_any_preference_is_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataset, match="every row has two answers that are the same"):
        encode(tmp_path, "chatml", [row, row], "dpo")


@pytest.mark.parametrize("label", [True, False, "true", "false", 1, 0])
def test_a_rating_has_a_label(tmp_path: Path, label: Any) -> None:
    row = {"prompt": QUESTION, "completion": [GOOD], "label": label}
    rated = encode(tmp_path, "chatml", [row], "kto").rated_examples[0]
    assert rated.is_desirable == (label in (True, "true"))
    assert trained_texts("chatml", rated.example) == ["The quick fox<|im_end|>"]


def test_a_preference_pair_is_two_ratings(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "chatml", [PREFERENCES["openai"]], "kto")
    assert [rated.is_desirable for rated in dataset.rated_examples] == [True, False]


def test_columns_that_are_not_used_are_said(tmp_path: Path) -> None:
    row = chat("Hi there", "The quick fox", source="web", prompt_id=None)
    row["messages"][0]["lang"] = "en"
    events = encode(tmp_path, "chatml", [row]).events
    assert events == ("Columns that are not used: 'messages[].lang', 'source'.",)


@pytest.mark.parametrize(
    ("method", "row", "message"),
    [
        (
            "supervised",
            PREFERENCES["messages"],
            "Line 1: has the columns 'prompt', 'chosen', 'rejected', which are no form of rows for the "
            "method supervised: choose the method dpo or orpo or kto, or other rows",
        ),
        ("dpo", {"messages": DIALOG}, "choose the method supervised, or other rows"),
        ("supervised", {"colour": "red"}, "the forms are chat (messages); dialog (dialog);"),
        ("dpo", {"prompt": "y", "chosen": [GOOD], "rejected": "x"}, "rejected must be text or messages"),
        ("kto", {"prompt": "a", "completion": "b", "label": 2}, "label must be true for a desirable answer"),
    ],
)
def test_rows_of_no_form_are_refused_with_their_columns(
    tmp_path: Path, method: Method, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidDataset) as refusal:
        encode(tmp_path, "chatml", [row], method)
    assert message in refusal.value.message
    assert refusal.value.line == 1


def test_rows_of_two_forms_are_refused(tmp_path: Path) -> None:
    rows = [{"messages": DIALOG}, {"messages": DIALOG, "text": "x"}, {"text": "x"}]
    with pytest.raises(InvalidDataset, match=r"Line 3: lacks a column .* chat \(messages\); .* one form"):
        encode(tmp_path, "chatml", rows)


def test_rows_whose_answer_would_be_cut_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [chat("Hi there", "The quick fox"), chat("Hi there", "fox " * 50), chat("Hi", "x" * 100_000)]
    dataset = encode(tmp_path, "chatml", rows, max_length=40)
    assert (len(dataset), dataset.num_cut, dataset.cut_lines) == (1, 2, (2, 3))
    assert "Left out: 2 rows (lines 2, 3), whose answer max_length (40 tokens) would cut" in dataset.events[0]


def test_a_dataset_of_which_every_row_is_cut_is_refused_with_the_length_that_fits(tmp_path: Path) -> None:
    rows = [chat("Hi there", "The quick fox"), chat("Hi there", "The quick fox jumps over it")]
    num_tokens = len(encode(tmp_path, "chatml", rows).examples[0].token_ids)
    with pytest.raises(InvalidDataset, match=rf"raise it to at least {num_tokens}, or shorten the rows"):
        encode(tmp_path, "chatml", rows, max_length=5)
    assert encode(tmp_path, "chatml", rows, max_length=num_tokens).num_cut == 1


def test_the_counts_of_a_dataset_are_those_of_its_rows(tmp_path: Path) -> None:
    dataset = encode(tmp_path, "chatml", [chat("Hi there", "The quick fox")] * 3)
    example = dataset.examples[0]
    assert (dataset.num_tokens, dataset.num_trained_tokens) == (
        3 * len(example.token_ids),
        3 * sum(map(bool, example.weights)),
    )
    assert [example.line for example in dataset.examples] == [1, 2, 3]


def test_a_csv_file_has_the_forms_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('question,answer\nHi there,The quick fox\n"Hi,\nthere",""\n')
    dataset = make_encoder("chatml").encode(path, "supervised", "text/csv")
    assert decode("chatml", dataset.examples[0].token_ids) == ANSWERED
    assert [example.line for example in dataset.examples] == [2, 3]
