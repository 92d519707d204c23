"""The watermark against TGI's definition, and its detection."""

import torch

from inference.engine.watermark import greens, watermark
from inference.sampling import Sampling, Watermark
from tests.engine.answers import random_logits, sequence


def test_the_tokens_favoured_are_those_of_tgi() -> None:
    generator = torch.Generator().manual_seed(15485863 * 42)
    green = torch.randperm(1000, generator=generator)[:250]
    logits = random_logits(3, 1000)
    expected = logits.clone()
    expected[1, green] += 1.5
    watermark(logits, {1: sequence([7], [42], Sampling(watermark=Watermark(0.25, 1.5)))})
    assert torch.equal(logits, expected)


def test_rows_are_marked_each_by_its_own_last_token_and_strength() -> None:
    logits = torch.zeros(2, 1000)
    marks = (Watermark(0.5, 2.0), Watermark(0.1, 3.0))
    rows = {row: sequence([row], [], Sampling(watermark=mark)) for row, mark in enumerate(marks)}
    watermark(logits, rows)
    assert [(row == row.max()).sum().item() for row in logits] == [500, 100]
    assert logits.amax(-1).tolist() == [2.0, 3.0]
    assert torch.equal(logits[0] > 0, greens(0, 0.5, 1000))
