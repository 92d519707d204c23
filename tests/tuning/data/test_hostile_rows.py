"""Broken rows are refused with their line and key, in bounded time. No JSON raises another error."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuning.data.broken_rows import (
    ASSISTANT,
    BROKEN,
    BROKEN_PREFERENCES,
    BROKEN_RATINGS,
    GOOD,
    USER,
    answer_with,
)
from tests.tuning.data.datasets import chat, encode, make_encoder, write_jsonl
from tuning.data.examples import InvalidDataset
from tuning.types import Method


def refusal(path: Path, rows: list[Any], method: Method) -> InvalidDataset:
    with pytest.raises(InvalidDataset) as refused:
        encode(path, "chatml", rows, method, max_length=1000)
    return refused.value


@pytest.mark.timeout(100)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_is_refused_with_its_line_and_key(tmp_path: Path, name: str) -> None:
    row, message = BROKEN[name]
    error = refusal(tmp_path, [row], "supervised")
    assert error.message.startswith("Line 1: ") and message in error.message
    assert (error.line, error.status) == (1, 400)
    assert len(error.message) < 600


@pytest.mark.parametrize("name", BROKEN_PREFERENCES)
def test_a_broken_pair_is_refused_with_its_line_and_key(tmp_path: Path, name: str) -> None:
    row, message = BROKEN_PREFERENCES[name]
    error = refusal(tmp_path, [row], "dpo")
    assert error.message.startswith("Line 1: ") and message in error.message


@pytest.mark.parametrize("name", BROKEN_RATINGS)
def test_a_broken_rating_is_refused_with_its_line_and_key(tmp_path: Path, name: str) -> None:
    row, message = BROKEN_RATINGS[name]
    assert message in refusal(tmp_path, [row], "kto").message


def test_the_line_is_that_of_the_broken_row(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    lines = [json.dumps(GOOD), "", json.dumps(GOOD), json.dumps({"messages": [USER]})]
    path.write_text("\r\n".join(lines))
    with pytest.raises(InvalidDataset, match=r"^Line 4: messages has no message of the assistant"):
        make_encoder("chatml").encode(path, "supervised")


def test_what_the_template_refuses_is_refused_with_its_words(tmp_path: Path) -> None:
    rows = [GOOD, {"messages": [USER, ASSISTANT, {"role": "tool", "content": "x"}, ASSISTANT]}]
    encoder = make_encoder("mistral")
    encoded = encoder.encode(write_jsonl(tmp_path / "rows", rows), "supervised")  # rewritten, as when served
    assert len(encoded) == 2


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "row",
    [
        {"k" * 10**6: 1},
        {**GOOD, "k" * 10**6: 1},
        answer_with(content="x", **{"k" * 10**6: 1}),
        chat("x" * 10**6, "y"),
        chat("x", "y" * 10**6),
        chat("x", "<|im_end|>" * 100_000),
        {"messages": [USER, ASSISTANT] * 250},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 100_000}, ASSISTANT]},
        {**GOOD, "tools": [{"function": {"name": "f"}}] * 50_000},
        {"text": "\u0301" * 300_000},
        {"messages": "[" + '{"role": "user"},' * 100_000},
        {f"k{i}": 1 for i in range(100_000)},
        chat("x", "y", **{f"k{i}": 1 for i in range(100_000)}),
    ],
    ids=range(13),
)
def test_large_rows_take_bounded_time(tmp_path: Path, row: dict[str, Any]) -> None:
    rows = [GOOD, row] if "messages" in row else [row]
    try:
        dataset = encode(tmp_path, "qwen 2.5", rows, max_length=500)
    except InvalidDataset as error:
        assert len(error.message) < 1000
    else:
        assert len(dataset) >= 1 and sum(map(len, dataset.events)) < 2000


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)
COLUMNS = (
    "messages",
    "tools",
    "prompt",
    "completion",
    "chosen",
    "rejected",
    "input",
    "label",
    "text",
    "dialog",
)
KEYS = ("from", "value", "weight", "tool_calls", "name", "reasoning")
ROLE = st.sampled_from(("user", "assistant", "system", "tool", "developer", "function", "bot"))
MESSAGE = st.fixed_dictionaries(
    {"role": ROLE, "content": st.text(max_size=8)}, optional=dict.fromkeys(KEYS, JSON)
)
ROW = st.dictionaries(st.sampled_from(COLUMNS), st.lists(MESSAGE | JSON, max_size=4) | JSON, max_size=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=3), method=st.sampled_from(("supervised", "dpo", "kto")))
def test_any_rows_are_encoded_or_refused_with_a_line(tmp_path: Path, rows: list[Any], method: Method) -> None:
    path = tmp_path / "rows"
    path.write_text("\n".join(map(json.dumps, rows)))
    encoder = make_encoder("qwen 3", max_length=200)
    try:
        dataset = encoder.encode(path, method)
    except InvalidDataset as error:
        assert error.line is None or 1 <= error.line <= len(rows)
    else:
        for example in dataset.sequences():
            assert len(example.token_ids) == len(example.weights) <= 200
            assert example.weights[0] == 0 < example.num_trained_tokens


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_change_of_bytes_is_encoded_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(
        "\n".join(json.dumps(row, ensure_ascii=False) for row in (GOOD, chat("Hé", "Ho"), GOOD)).encode()
    )
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "rows"
    path.write_bytes(content)
    for media_type in ("application/jsonl", "application/json", "text/csv"):
        try:
            make_encoder("chatml").encode(path, "supervised", media_type)
        except InvalidDataset as error:
            assert error.line is None or 1 <= error.line <= 1 + content.count(b"\n")
