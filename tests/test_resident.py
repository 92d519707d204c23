"""What this process has of RAM."""

from pathlib import Path

import pytest
import torch

from inference.heap import give_back
from inference.model.blank import blank
from inference.resident import forget_peak, resident, written

MB = 1_000_000
linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")


def test_memory_that_is_written_to_is_counted_and_given_back_when_freed() -> None:
    before = resident()
    held = torch.ones(100 * MB, dtype=torch.uint8)
    assert 95 * MB < resident().own - before.own < 110 * MB
    del held
    give_back()
    assert resident().own - before.own < 20 * MB


@linux
def test_a_peak_is_kept_until_it_is_forgotten() -> None:
    held = torch.ones(100 * MB, dtype=torch.uint8)
    high = resident().all
    del held
    give_back()
    assert resident().peak >= high - MB
    forget_peak()
    assert resident().peak < high - 50 * MB


@linux
def test_only_what_was_written_to_has_pages() -> None:
    held = blank((10 * MB,), torch.empty(0, dtype=torch.uint8))
    before = written(held.data_ptr(), held.nbytes)
    held[: 2 * MB] = 1
    assert before < MB
    assert 2 * MB <= written(held.data_ptr(), held.nbytes) < 3 * MB
