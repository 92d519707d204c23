"""With the tokenizer and the chat template of models/demo, which answer requests."""

import time
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from inference.text.chat_template import ChatTemplate
from tests.tuning.data.datasets import chat, write_jsonl
from tuning.data.encoder import Encoder
from tuning.data.examples import Dataset
from tuning.data.inspection import inspect

DEMO = Path(__file__).parents[3] / "models" / "demo"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    return Encoder(tokenizer, ChatTemplate(tokenizer), max_length=2048)


def encode(encoder: Encoder, path: Path, rows: list[dict]) -> Dataset:
    return encoder.encode(write_jsonl(path / "rows.jsonl", rows), "supervised")


def test_the_answers_and_the_ends_of_their_turns_are_trained(encoder: Encoder, tmp_path: Path) -> None:
    row = chat("What is the capital of France?", " Paris. ", "And of <|eot_id|>?", "Nothing:\n\n  é 😀")
    row["messages"].insert(0, {"role": "system", "content": "Be brief."})
    inspection = inspect(dataset := encode(encoder, tmp_path, [row]), encoder)
    segments = inspection.rows[0].segments
    assert [segment.text for segment in segments if segment.is_trained] == [
        "Paris.<|eot_id|>",
        "Nothing:\n\n  é 😀<|eot_id|>",
    ]
    assert segments[0].text == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nWhat is the capital of France?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert dataset.events == ()


def test_a_tool_call_is_trained_as_the_model_writes_it(encoder: Encoder, tmp_path: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "user", "content": "Rain in Paris?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": "a"},
        {"role": "assistant", "content": "No."},
    ]
    row = inspect(encode(encoder, tmp_path, [{"messages": messages}]), encoder).rows[0]
    assert [segment.text for segment in row.segments if segment.is_trained] == [
        '{"name": "weather", "parameters": {"city": "Paris"}}<|eot_id|>',
        "No.<|eot_id|>",
    ]


def test_ten_thousand_rows_take_no_minutes(encoder: Encoder, tmp_path: Path) -> None:
    """A tenth of them takes a tenth of the time, which is some 8 CPU seconds."""
    rows = [chat(f"What is the number {i}? " * 8, f"It is {i}. " * 8) for i in range(1000)]
    began_s = time.process_time()
    assert len(encode(encoder, tmp_path, rows)) == 1000
    assert time.process_time() - began_s < 12
