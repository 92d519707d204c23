"""The sampler as a whole: who gets which token, alone and in company."""

from dataclasses import replace

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inference.engine.sampler import BROKEN, EMPTY, Choice, Sampler
from inference.engine.sequence import Sequence, Task
from inference.sampling import Sampling, Watermark, Window

WIDTH = 500
GREEDY = Sampling(greedy=True)


class Nowhere:
    def put(self, record: object) -> None:
        raise AssertionError("nothing is sent in these tests")


class Listed:
    """A matcher that allows some ids and remembers what it was told."""

    def __init__(self, *ids: int) -> None:
        self.mask = torch.zeros((WIDTH + 31) // 32, dtype=torch.int32)
        self.told: list[int] = []
        for id in ids:
            self.mask[id // 32] |= 1 << id % 32

    def allowed(self) -> torch.Tensor:
        return self.mask

    def advance(self, token: int) -> None:
        self.told.append(token)


def sequence(sampling: Sampling = GREEDY, answer: tuple[int, ...] = (), **task: object) -> Sequence:
    made = Sequence(0, Task((1, 2, 3), 100, sampling, **task), Nowhere(), [1, 2, 3])
    made.tokens += answer
    return made


def some_logits(rows: int, width: int = WIDTH, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * 2


def variety() -> list[Sequence]:
    """Sequences that want all kinds of things."""
    return [
        sequence(),
        sequence(Sampling(), seed=1),
        sequence(Sampling(temperature=0.7, top_k=5), (4, 4), seed=2),
        sequence(Sampling(temperature=1.5, top_p=0.6, repetition=1.2), (9,), seed=3, logprobs=4),
        sequence(Sampling(top_k=40, top_p=0.9, min_p=0.1), seed=4),
        sequence(Sampling(greedy=True, presence=1.5, frequency=0.5), (7, 7, 8), logprobs=0),
        sequence(Sampling(bias={5: 20.0}), seed=2**64 - 1),
        sequence(Sampling(min_p=0.3), seed=6, ends=frozenset(range(0, WIDTH, 2)), min_tokens=3),
        sequence(Sampling(temperature=0.0), logprobs=2),
        sequence(Sampling(temperature=2.0), seed=7, matcher=Listed(3, 33, 303)),
        *unusual(),
    ]


def unusual() -> list[Sequence]:
    """Sequences that want what few do, and logprobs of what they get."""
    window = Window((1, 2, 3), 1.7, 4, slope=2.0)
    shapes = [
        Sampling(temperature=1.4, typical_p=0.6, frequency_share=0.5),
        Sampling(temperature=0.9, tfs=0.9, window=window),
        Sampling(temperature=0.9, top_a=0.2, watermark=Watermark()),
        Sampling(temperature=0.8, tfs=0.8, top_k=30, order=("tfs", "temperature")),
        Sampling(window=window, repetition=1.2, top_p=0.7, order=("top_p", "repetition")),
        Sampling(no_repeat_ngram=2, banned=((5,), (4, 9), (9, 4, 4)), banned_first=frozenset((8,))),
        Sampling(allowed=frozenset(range(9, 90))),
        Sampling(greedy=True, window=window, watermark=Watermark(0.2, 5.0), allowed=frozenset((4, 7, 8))),
    ]
    return [
        sequence(shape, (9, 4, 4), seed=row, logprobs=3 * (row % 2), warped=row % 3 > 0)
        for row, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(dtype: torch.dtype) -> None:
    sampler = Sampler(WIDTH)
    for step in range(5):
        logits = some_logits(18, seed=step).to(dtype)
        together = sampler.sample(logits, variety())
        alone = [sampler.sample(logits[i : i + 1], [s])[0] for i, s in enumerate(variety())]
        assert together == alone


def test_order_and_company_do_not_matter() -> None:
    logits = some_logits(18)
    backwards = Sampler(WIDTH).sample(logits.flip(0), variety()[::-1])
    assert backwards[::-1] == Sampler(WIDTH).sample(logits, variety())


def test_greedy_rows_get_the_most_probable_token() -> None:
    logits = some_logits(6)
    rows = [
        sequence(),
        sequence(Sampling(temperature=0.0)),
        sequence(Sampling(greedy=True, temperature=9)),
    ] * 2
    assert [c.id for c in Sampler(WIDTH).sample(logits, rows)] == logits.argmax(-1).tolist()


def test_the_logits_are_left_as_they_were() -> None:
    logits = some_logits(18)
    before = logits.clone()
    Sampler(WIDTH).sample(logits, variety())
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=1.4, top_k=6),
        Sampling(top_p=0.8, min_p=0.05),
    ],
)
def test_tokens_come_as_often_as_their_probabilities_say(sampling: Sampling) -> None:
    draws, width = 20_000, 12
    logits = some_logits(1, width, seed=5)
    rows = [sequence(sampling, seed=seed) for seed in range(draws)]
    chosen = torch.tensor([c.id for c in Sampler(width).sample(logits.expand(draws, width), rows)])
    expected = draws * reference(logits, sampling)[0]
    counts = chosen.bincount(minlength=width)
    assert int(counts[expected == 0].sum()) == 0
    left = expected > 0
    chi_square = float(((counts - expected)[left] ** 2 / expected[left]).sum())
    assert chi_square < 40  # at most 11 degrees of freedom: exceeded less than once in 20,000


def test_the_same_seed_draws_anew_at_each_position_and_alike_each_time() -> None:
    flat = torch.zeros(20, WIDTH)
    rows = [sequence(Sampling(), (0,) * n, seed=3) for n in range(20)]
    first = [c.id for c in Sampler(WIDTH).sample(flat, rows)]
    assert first == [c.id for c in Sampler(WIDTH).sample(flat, rows)]
    assert len(set(first)) > 15


def test_a_near_zero_temperature_is_greedy() -> None:
    logits = some_logits(50)
    rows = [sequence(Sampling(temperature=1e-30), seed=seed) for seed in range(50)]
    assert [c.id for c in Sampler(WIDTH).sample(logits, rows)] == logits.argmax(-1).tolist()


@pytest.mark.parametrize("ill", [float("nan"), float("-inf"), float("inf")])
def test_a_broken_row_is_told_and_the_others_are_not_touched(ill: float) -> None:
    logits = some_logits(18)
    sound = Sampler(WIDTH).sample(logits, variety())
    for row in range(18):
        spoilt = logits.clone()
        spoilt[row] = ill
        assert Sampler(WIDTH).sample(spoilt, variety()) == [*sound[:row], Choice(BROKEN), *sound[row + 1 :]]


@pytest.mark.parametrize("row", range(16))
def test_a_single_nan_breaks_its_row(row: int) -> None:
    logits = some_logits(18)
    logits[row, 303] = float("nan")
    broken = [i for i, c in enumerate(Sampler(WIDTH).sample(logits, variety())) if c.id == BROKEN]
    assert broken == [row]


@pytest.mark.parametrize("greedy", [True, False])
def test_a_request_that_leaves_nothing_is_told_and_no_other(greedy: bool) -> None:
    matcher = Listed(3)
    sampling = Sampling(greedy=greedy, banned=((3,),), temperature=0.5, top_p=0.5, typical_p=0.5, tfs=0.5)
    rows = [sequence(), sequence(sampling, matcher=matcher, logprobs=2, warped=True), sequence()]
    choices = Sampler(WIDTH).sample(some_logits(3), rows)
    assert choices[0].id >= 0 and choices[1] == Choice(EMPTY) and choices[2].id >= 0
    assert matcher.told == []


def test_columns_beyond_the_vocabulary_are_never_chosen() -> None:
    logits = some_logits(2, WIDTH + 60)
    logits[:, WIDTH:] = 50
    choices = Sampler(WIDTH).sample(logits, [sequence(logprobs=1), sequence(Sampling(), seed=1)])
    assert choices[0].id == int(logits[0, :WIDTH].argmax()) and choices[1].id < WIDTH
    assert choices[0].tops[0][0] == choices[0].id


def test_a_matcher_is_told_its_token_but_not_the_end() -> None:
    logits = some_logits(2)
    logits[:, 44] = 30
    ending, going = Listed(44), Listed(44, 45)
    rows = [sequence(matcher=ending, ends=frozenset((44,))), sequence(matcher=going)]
    assert [c.id for c in Sampler(WIDTH).sample(logits, rows)] == [44, 44]
    assert (ending.told, going.told) == ([], [44])


def test_logprobs_are_of_the_raw_logits() -> None:
    logits = some_logits(3).bfloat16()
    heavy = Sampling(temperature=0.2, top_k=2, repetition=1.5, bias={9: 30.0})
    rows = [sequence(heavy, seed=1, logprobs=3), sequence(), sequence(logprobs=0)]
    choices = Sampler(WIDTH).sample(logits, rows)
    truth = logits.float().log_softmax(-1)
    assert choices[0].id == 9 and choices[0].logprob == float(truth[0, 9])
    best = truth[0].topk(3)
    assert choices[0].tops == tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    assert choices[1].logprob is None and choices[1].tops == ()
    assert choices[2].logprob == float(truth[2].max()) and choices[2].tops == ()


def test_more_alternatives_than_tokens_are_all_tokens() -> None:
    choice = Sampler(5).sample(some_logits(1, 5), [sequence(logprobs=20)])[0]
    assert sorted(id for id, _ in choice.tops) == list(range(5))


def test_tied_alternatives_are_ordered_by_id_and_begin_with_the_greedy_choice() -> None:
    logits = torch.zeros(1, WIDTH)
    logits[0, [400, 30, 200, 100]] = 5.0
    for asked in (2, 4):
        choice = Sampler(WIDTH).sample(logits, [sequence(logprobs=asked)])[0]
        assert choice.id == 30
        assert [id for id, _ in choice.tops] == [30, 100, 200, 400][:asked]


def test_scores_are_logprobs_of_given_ids() -> None:
    logits = some_logits(4).bfloat16()
    truth = logits.float().log_softmax(-1)
    scores = Sampler(WIDTH).score(logits, [5, 6, 7, 499], 2)
    assert [score.logprob for score in scores] == [float(truth[i, id]) for i, id in enumerate((5, 6, 7, 499))]
    assert [score.tops[0][1] for score in scores] == truth.amax(-1).tolist()
    assert all(len(score.tops) == 2 for score in scores)
    assert Sampler(WIDTH).score(logits, [5, 6, 7, 8], 0)[0] == (float(truth[0, 5]), (), scores[0].rank)


def test_a_scores_rank_counts_the_tokens_at_least_as_likely() -> None:
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 0.0]] * 4)
    assert [score.rank for score in Sampler(5).score(logits, [0, 2, 1, 4], 0)] == [1, 3, 4, 5]


def test_warped_logprobs_are_of_what_a_token_is_drawn_from() -> None:
    logits = some_logits(3)
    drawn = Sampling(temperature=0.5, top_k=3, bias={9: 30.0}, repetition=1.5)
    rows = [
        sequence(drawn, seed=1, logprobs=5, warped=True),
        sequence(Sampling(greedy=True, temperature=0.5, bias={7: 30.0}), logprobs=2, warped=True),
        sequence(logprobs=1),
    ]
    choices = Sampler(WIDTH).sample(logits, rows)
    edited = logits.clone()
    edited[0, 9] += 30
    edited[0] = RepetitionPenaltyLogitsProcessor(1.5)(torch.tensor([[1, 2, 3]]), edited[:1])
    edited[1, 7] += 30
    for choice, truth in zip(choices, (edited[:1] / 0.5, edited[1:2], edited[2:]), strict=True):
        best = truth.topk(3).values
        scores = truth.where(truth >= best[:, -1:], -torch.inf) if choice is choices[0] else truth
        scores = scores.log_softmax(-1)[0]
        assert choice.logprob == pytest.approx(float(scores[choice.id]), abs=1e-5)
        assert [score for _, score in choice.tops] == pytest.approx(
            scores.topk(len(choice.tops)).values.tolist(), abs=1e-5
        )
    assert [len(choice.tops) for choice in choices] == [3, 2, 1]  # what top-k has removed is left out


def test_an_order_says_which_warper_comes_first() -> None:
    logits = torch.tensor([[4.0, 3.0, 2.0, 0.0]])
    hot = Sampling(temperature=10.0, top_p=0.85)
    first = replace(hot, order=("top_p",))
    left = [Sampler(4).sample(logits, [sequence(s, logprobs=4, warped=True)])[0].tops for s in (hot, first)]
    assert [len(tops) for tops in left] == [4, 2]


def test_penalties_reach_greedy_rows() -> None:
    logits = torch.zeros(1, WIDTH)
    logits[0, 7], logits[0, 8] = 2.0, 1.5
    choose = Sampler(WIDTH).sample
    assert choose(logits, [sequence(answer=(7,))])[0].id == 7
    assert choose(logits, [sequence(Sampling(greedy=True, presence=1.0), (7,))])[0].id == 8
    assert choose(logits, [sequence(Sampling(greedy=True, repetition=2.0), (7,))])[0].id == 8


def reference(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution a row is drawn from, by transformers' processors in transformers' order."""
    steps = [
        (sampling.temperature, 1.0, TemperatureLogitsWarper),
        (sampling.top_k, 0, TopKLogitsWarper),
        (sampling.top_p, 1.0, TopPLogitsWarper),
        (sampling.min_p, 0.0, MinPLogitsWarper),
    ]
    for value, neutral, make in steps:
        if value != neutral:
            logits = make(value)(None, logits)
    return logits.softmax(-1)
