"""The sums of hidden states over the chunks of texts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inference.engine.pooled_sum import add_chunks
from inference.model.forward_pass.pooling import sum_rows


class CountedOperations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.num_operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num_operations += 1
        return func(*args, **(kwargs or {}))


def count_operations(work: Callable[[], object]) -> int:
    with CountedOperations() as counted:
        work()
    return counted.num_operations


def test_chunks_add_up() -> None:
    chunks = torch.randn(3, 4, 8)
    pooled = add_chunks(chunks[0], [None] * 4)
    for chunk in chunks[1:]:
        pooled = add_chunks(chunk, pooled)
    for row, expected in zip(pooled, chunks.double().sum(0), strict=True):
        assert row.length == pytest.approx(expected.norm().item())
        assert row.unit == pytest.approx((expected / expected.norm()).tolist())


def test_rows_of_spans_are_summed_alone() -> None:
    states = torch.randn(12, 8)
    sums = sum_rows(states, [(0, 3), (4, 5), (5, 11)])
    expected = torch.stack([states[0:3].sum(0), states[4], states[5:11].sum(0)])
    torch.testing.assert_close(sums, expected)


def test_a_step_takes_as_many_operations_for_many_rows_as_for_one() -> None:
    """The engine may wait for Python's lock after each."""

    def pool(num_rows: int) -> None:
        sums = sum_rows(torch.ones(num_rows, 8), [(row, row + 1) for row in range(num_rows)])
        add_chunks(sums, [None] * num_rows)

    assert count_operations(lambda: pool(64)) == count_operations(lambda: pool(1))
