"""Sizes and counts in the texts of findings."""

import pytest

from inference.finding import format_count, format_each, format_size


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 bytes"), (0.9, "1 byte"), (1, "1 byte"), (2, "2 bytes"), (1000, "1.0 kB")]
)
def test_one_byte_is_singular(num_bytes: float, text: str) -> None:
    assert format_size(num_bytes) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_one_of_a_noun_is_singular(count: int, text: str) -> None:
    assert format_count(count, "GPU") == text


def test_what_several_need_is_a_product() -> None:
    assert (format_each(1_200_000_000, 1), format_each(1_200_000_000, 2)) == ("1.2 GB", "2 x 1.2 GB")
