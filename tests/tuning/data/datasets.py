"""Writes small datasets and encodes them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tuning.data.chat_templates import chat_template_of, tokenizer_of
from tuning.data.encoder import Encoder
from tuning.data.examples import Dataset, Example
from tuning.types import Method


def write_jsonl(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    return path


def chat(*contents: str, **columns: Any) -> dict[str, Any]:
    """A row of messages that the user and the assistant write in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"messages": messages, **columns}


def make_encoder(template: str, *, max_length: int = 0, train_on_input: bool = False) -> Encoder:
    return Encoder(
        tokenizer_of(template),
        chat_template_of(template),
        max_length=max_length,
        train_on_input=train_on_input,
    )


def encode(
    path: Path, template: str, rows: Sequence[Any], method: Method = "supervised", **options: Any
) -> Dataset:
    return make_encoder(template, **options).encode(write_jsonl(path / "rows.jsonl", rows), method)


def trained_texts(template: str, example: Example) -> list[str]:
    """The text of each run of trained tokens."""
    runs: list[list[int]] = []
    was_trained = False
    for token_id, weight in zip(example.token_ids, example.weights, strict=True):
        if weight and not was_trained:
            runs.append([])
        if weight:
            runs[-1].append(token_id)
        was_trained = bool(weight)
    return [decode(template, run) for run in runs]


def decode(template: str, token_ids: Sequence[int]) -> str:
    return tokenizer_of(template).decode(token_ids, clean_up_tokenization_spaces=False)
