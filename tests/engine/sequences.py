"""Sequences and logits for tests of the sampler."""

import torch

from inference.engine.sequence import Matcher, Sequence
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request


class RefusingSink:
    def put(self, output: object) -> None:
        raise AssertionError("nothing is sent in these tests")


def make_sequence(
    prompt: list[int],
    output_token_ids: list[int],
    sampling: Sampling | None = None,
    matcher: Matcher | None = None,
    **fields: object,
) -> Sequence:
    created = Sequence(
        0,
        make_request(tuple(prompt), 100, sampling or Sampling(), **fields),
        RefusingSink(),
        list(prompt),
        matcher=matcher,
    )
    created.token_ids += output_token_ids
    return created


def random_logits(rows: int, width: int = 100) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1)) * 2
