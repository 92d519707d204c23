"""Which edit concerns whom, and what the table of them comes to."""

from dataclasses import replace

import pytest
import torch

from inference.engine.edits import EDITS, bias, edit, reads
from inference.engine.order import warp
from inference.sampling import Sampling, Watermark, Window
from tests.engine.answers import random_logits, sequence

WIDTH = 100
ORDER = ("temperature", "repetition")


@pytest.fixture
def logits() -> torch.Tensor:
    return random_logits(3, WIDTH)


def test_a_bias_is_added_and_ids_beyond_the_logits_are_ignored(logits: torch.Tensor) -> None:
    before = logits.clone()
    biases = {3: 5.0, 9: -100.0, WIDTH: 7.0, -1: 7.0}
    bias(logits, {0: sequence([1], [], Sampling(bias=biases)), 2: sequence([1], [], Sampling(bias={0: 1.0}))})
    expected = before.clone()
    expected[0, 3] += 5
    expected[0, 9] -= 100
    expected[2, 0] += 1
    assert torch.equal(logits, expected)


def test_without_edits_the_logits_are_the_same_and_with_one_a_copy(logits: torch.Tensor) -> None:
    before = logits.clone()
    plain = [sequence([1], [2], Sampling(temperature=0.5, top_k=3)) for _ in range(3)]
    assert edit(logits, plain) is logits
    edited = edit(logits, [*plain[:2], sequence([1], [2], Sampling(repetition=2.0))])
    assert torch.equal(logits, before)
    assert torch.equal(edited[:2], before[:2]) and not torch.equal(edited[2], before[2])


EACH = (
    Sampling(bias={3: 1.0}),
    Sampling(watermark=Watermark()),
    Sampling(repetition=2.0),
    Sampling(window=Window((2, 3), 2.0, 2)),
    Sampling(presence=1.0),
    Sampling(frequency=1.0),
    Sampling(frequency_share=1.0),
    Sampling(no_repeat_ngram=1),
    Sampling(allowed=frozenset((3,))),
    Sampling(banned=((3,),)),
    Sampling(banned_first=frozenset((3,))),
)


@pytest.mark.parametrize("sampling", EACH)
def test_every_edit_holds_for_greedy_rows_and_for_drawn_ones(sampling: Sampling) -> None:
    logits = random_logits(1, WIDTH)
    answer = [] if sampling.banned_first else [5]
    drawn = edit(logits, [sequence([2, 3], answer, sampling)])
    greedy = edit(logits, [sequence([2, 3], answer, replace(sampling, greedy=True))])
    assert torch.equal(drawn, greedy) and not torch.equal(drawn, logits)
    assert sum(concerns(sequence([2, 3], answer, sampling)) for concerns, *_ in EDITS) == 1


@pytest.mark.parametrize(
    "sampling", (*EACH, Sampling(banned=((5, 6),)), Sampling(repetition=2.0, order=ORDER))
)
def test_an_edit_reads_tokens_where_it_does_something_else_behind_others(sampling: Sampling) -> None:
    logits = random_logits(1, WIDTH)
    known = [sequence([2, 3], answer, sampling, min_tokens=4, ends=frozenset((1,))) for answer in ([5], [6])]
    warped = [warp(edit(logits, [each]), [each]) for each in known]
    assert reads(known[0]) == (not torch.equal(*warped))


def test_what_may_not_begin_an_answer_may_go_on_with_it(logits: torch.Tensor) -> None:
    rows = [sequence([1], answer, Sampling(banned_first=frozenset((4,)))) for answer in ([], [2], [4])]
    assert edit(logits, rows)[:, 4].isfinite().tolist() == [False, True, True]


def test_a_bias_brings_no_banned_token_back(logits: torch.Tensor) -> None:
    sampling = Sampling(bias={4: 100.0}, banned=((4,),), watermark=Watermark(delta=100.0))
    assert float(edit(logits, [sequence([1], [2], sampling)] * 3)[0, 4]) == -torch.inf
