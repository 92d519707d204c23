"""Sequences and logits for tests of the sampler."""

import torch

from inference.engine.sequence import Sequence, Task
from inference.sampling import Sampling


class RefusingSink:
    def put(self, output: object) -> None:
        raise AssertionError("nothing is sent in these tests")


def make_sequence(
    prompt: list[int], output_token_ids: list[int], sampling: Sampling | None = None, **task: object
) -> Sequence:
    created = Sequence(
        0, Task(tuple(prompt), 100, sampling or Sampling(), **task), RefusingSink(), list(prompt)
    )
    created.token_ids += output_token_ids
    return created


def random_logits(rows: int, width: int = 100) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1)) * 2
