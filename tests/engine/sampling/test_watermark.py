"""The watermark against TGI's definition, and its detection."""

import torch

from inference.engine.sampling.watermark import add_watermark, green_list
from inference.sampling import Sampling, Watermark
from tests.engine.sequences import make_sequence, random_logits


def test_the_green_list_is_that_of_tgi() -> None:
    generator = torch.Generator().manual_seed(15485863 * 42)
    green = torch.randperm(1000, generator=generator)[:250]
    logits = random_logits(3, 1000)
    expected = logits.clone()
    expected[1, green] += 1.5
    add_watermark(logits, {1: make_sequence([7], [42], Sampling(watermark=Watermark(0.25, 1.5)))})
    assert torch.equal(logits, expected)


def test_each_row_is_watermarked_by_its_own_last_token_and_strength() -> None:
    logits = torch.zeros(2, 1000)
    marks = (Watermark(0.5, 2.0), Watermark(0.1, 3.0))
    rows = {row: make_sequence([row], [], Sampling(watermark=mark)) for row, mark in enumerate(marks)}
    add_watermark(logits, rows)
    assert [(row == row.max()).sum().item() for row in logits] == [500, 100]
    assert logits.amax(-1).tolist() == [2.0, 3.0]
    assert torch.equal(logits[0] > 0, green_list(0, 0.5, 1000))
