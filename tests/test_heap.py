"""What is freed goes back to the system while it is told so, and is kept for the next step otherwise."""

from pathlib import Path

import pytest
import torch

from inference.heap import give_back, returning
from inference.resident import resident

MB = 1 << 20
PIECES = 40
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")


def pieces() -> list[torch.Tensor]:
    return [torch.ones(2 * MB, dtype=torch.uint8) for _ in range(PIECES)]


def test_large_pieces_go_back_one_by_one_although_others_stay() -> None:
    give_back()
    with returning():
        held = pieces()
        there = resident().own
        del held[1::2]
    assert there - resident().own > 0.9 * PIECES * MB
    assert len(held) == PIECES / 2


def test_what_steps_use_is_kept_for_the_next() -> None:
    with returning():
        pass
    held = pieces()
    there = resident().own
    del held[1::2]
    assert there - resident().own < 0.1 * PIECES * MB
    give_back()
