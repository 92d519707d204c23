"""Sequences and logits to try the parts of the sampler on."""

import torch

from inference.engine.sequence import Sequence, Task
from inference.sampling import Sampling


class Nowhere:
    def put(self, record: object) -> None:
        raise AssertionError("nothing is sent in these tests")


def sequence(
    prompt: list[int], answer: list[int], sampling: Sampling | None = None, **task: object
) -> Sequence:
    made = Sequence(0, Task(tuple(prompt), 100, sampling or Sampling(), **task), Nowhere(), list(prompt))
    made.tokens += answer
    return made


def random_logits(rows: int, width: int = 100) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1)) * 2
