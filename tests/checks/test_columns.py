"""Cells stand below each other."""

from checks.columns import columns


def test_texts_begin_in_line_and_figures_end_in_line() -> None:
    rows = [("model", "", "weights"), ("llama", "int8", "7"), ("gpt", "", "12345678")]
    assert list(columns(rows, texts=2)) == [
        "model         weights",
        "llama  int8         7",
        "gpt          12345678",
    ]


def test_a_short_row_ends_early() -> None:
    assert list(columns([("a", "b", "c"), ("lost",)], texts=1)) == ["a     b  c", "lost"]


def test_without_rows_there_are_no_lines() -> None:
    assert list(columns([], texts=1)) == []
