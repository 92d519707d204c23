"""The sampler as a whole: who gets which token, alone and in company."""

import pytest
import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from inference.engine.sampler import BROKEN, Choice, Sampler
from inference.engine.sequence import Sequence, Task
from inference.sampling import Sampling

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
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(dtype: torch.dtype) -> None:
    sampler = Sampler(WIDTH)
    for step in range(5):
        logits = some_logits(10, seed=step).to(dtype)
        together = sampler.sample(logits, variety())
        alone = [sampler.sample(logits[i : i + 1], [s])[0] for i, s in enumerate(variety())]
        assert together == alone


def test_order_and_company_do_not_matter() -> None:
    logits = some_logits(10)
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
    logits = some_logits(10)
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
    logits = some_logits(10)
    sound = Sampler(WIDTH).sample(logits, variety())
    for row in range(10):
        spoilt = logits.clone()
        spoilt[row] = ill
        assert Sampler(WIDTH).sample(spoilt, variety()) == [*sound[:row], Choice(BROKEN), *sound[row + 1 :]]


@pytest.mark.parametrize("row", range(10))
def test_a_single_nan_breaks_its_row(row: int) -> None:
    logits = some_logits(10)
    logits[row, 303] = float("nan")
    broken = [i for i, c in enumerate(Sampler(WIDTH).sample(logits, variety())) if c.id == BROKEN]
    assert broken == [row]


def test_a_matcher_that_allows_nothing_breaks_its_row() -> None:
    matcher = Listed()
    choices = Sampler(WIDTH).sample(some_logits(2), [sequence(), sequence(matcher=matcher)])
    assert choices[0].id != BROKEN and choices[1] == Choice(BROKEN)
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
    assert [score for score, _ in scores] == [float(truth[i, id]) for i, id in enumerate((5, 6, 7, 499))]
    assert [tops[0][1] for _, tops in scores] == truth.amax(-1).tolist()
    assert all(len(tops) == 2 for _, tops in scores)
    assert Sampler(WIDTH).score(logits, [5, 6, 7, 8], 0)[0] == (float(truth[0, 5]), ())


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
