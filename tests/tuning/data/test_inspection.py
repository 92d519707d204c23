"""The dry run shows the first rows with what is trained of them."""

from pathlib import Path

import pytest

from tests.tuning.data.chat_templates import TEMPLATES
from tests.tuning.data.datasets import chat, make_encoder, write_jsonl
from tuning.data.inspection import Inspection, inspect
from tuning.types import Method


def inspection(path: Path, template: str, rows: list[dict], method: Method, num_rows: int = 5) -> Inspection:
    encoder = make_encoder(template, max_length=80)
    return inspect(encoder.encode(write_jsonl(path / "rows", rows), method), encoder, num_rows)


def test_a_row_is_its_text_with_the_trained_segments(tmp_path: Path) -> None:
    rows = [chat("Hi there", "The quick fox"), chat("Hi", "fox " * 100)]
    result = inspection(tmp_path, "chatml", rows, "supervised")
    row = result.rows[0]
    assert [(segment.text, segment.is_trained) for segment in row.segments] == [
        ("<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", False),
        ("The quick fox<|im_end|>", True),
    ]
    assert sum(segment.num_tokens for segment in row.segments) == row.num_tokens == result.num_tokens
    assert row.segments[1].num_tokens == row.num_trained_tokens == result.num_trained_tokens
    assert (result.row_form, result.num_rows, result.num_cut, result.cut_lines) == ("chat", 1, 1, (2,))
    assert len(result.events) == 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_segments_are_the_text_of_the_row_for_every_template(tmp_path: Path, name: str) -> None:
    row = inspection(tmp_path, name, [chat("Hé there", "The qüick fox 😀")], "supervised").rows[0]
    text = "".join(segment.text for segment in row.segments)
    assert "Hé there" in text and "The qüick fox 😀" in text
    assert row.segments[-1].is_trained
    assert "The qüick fox 😀" in row.segments[-1].text


def test_only_the_first_rows_are_shown(tmp_path: Path) -> None:
    result = inspection(tmp_path, "chatml", [chat("Hi", str(i)) for i in range(9)], "supervised", 3)
    assert [row.line for row in result.rows] == [1, 2, 3]
    assert result.num_rows == 9


def test_both_sides_of_a_pair_are_shown_with_their_labels(tmp_path: Path) -> None:
    rows = [{"prompt": "The quick", "chosen": " fox", "rejected": " dog"}] * 3
    result = inspection(tmp_path, "chatml", rows, "dpo", 2)
    assert [row.label for row in result.rows] == ["chosen", "rejected"] * 2
    rated = inspection(tmp_path, "chatml", rows, "kto", 2)
    assert [row.label for row in rated.rows] == ["desirable", "undesirable"]


def test_a_long_row_is_shown_in_part_and_counted_as_a_whole(tmp_path: Path) -> None:
    encoder = make_encoder("chatml")
    rows = [chat("Hi", "x y " * 3000)]
    row = inspect(encoder.encode(write_jsonl(tmp_path / "rows", rows), "supervised"), encoder).rows[0]
    assert sum(segment.num_tokens for segment in row.segments) == 2000 < row.num_tokens
