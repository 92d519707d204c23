"""The columns of a table are aligned."""

from checks.columns import align_columns


def test_text_is_left_aligned_and_figures_are_right_aligned() -> None:
    rows = [("model", "", "weights"), ("llama", "int8", "7"), ("gpt", "", "12345678")]
    assert list(align_columns(rows, num_text_columns=2)) == [
        "model         weights",
        "llama  int8         7",
        "gpt          12345678",
    ]


def test_a_short_row_ends_early() -> None:
    assert list(align_columns([("a", "b", "c"), ("lost",)], num_text_columns=1)) == ["a     b  c", "lost"]


def test_without_rows_there_are_no_lines() -> None:
    assert list(align_columns([], num_text_columns=1)) == []
