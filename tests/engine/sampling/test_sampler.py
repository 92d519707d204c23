"""The whole sampler: rows sampled alone and in a batch."""

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

from inference.engine.sampling.sampler import (
    NAN_LOGITS,
    NO_ALLOWED_TOKEN,
    BatchInvariantSampler,
    SampledToken,
    Sampler,
    advance_matchers,
)
from inference.engine.sequence import Matcher, Sequence
from inference.engine.step_output import PromptLogprob
from inference.sampling import PenaltyWindow, Sampling, Watermark
from tests.engine import sequences

WIDTH = 500
GREEDY = Sampling(greedy=True)


class AllowListed:
    """A matcher that allows some ids and records the ids it advances by."""

    failure = ""

    def __init__(self, *ids: int) -> None:
        self.mask = torch.zeros((WIDTH + 31) // 32, dtype=torch.int32)
        self.advanced_ids: list[int] = []
        for id in ids:
            self.mask[id // 32] |= 1 << id % 32

    def token_bitmask(self) -> torch.Tensor:
        return self.mask

    def advance(self, token: int) -> None:
        self.advanced_ids.append(token)


def make_sequence(
    sampling: Sampling = GREEDY,
    output_token_ids: tuple[int, ...] = (),
    matcher: Matcher | None = None,
    **fields: object,
) -> Sequence:
    return sequences.make_sequence([1, 2, 3], [*output_token_ids], sampling, matcher, **fields)


def some_logits(rows: int, width: int = WIDTH, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * 2


def variety() -> list[Sequence]:
    """Sequences with all kinds of sampling parameters."""
    return [
        make_sequence(),
        make_sequence(Sampling(), seed=1),
        make_sequence(Sampling(temperature=0.7, top_k=5), (4, 4), seed=2),
        make_sequence(Sampling(temperature=1.5, top_p=0.6, repetition_penalty=1.2), (9,), seed=3, logprobs=4),
        make_sequence(Sampling(top_k=40, top_p=0.9, min_p=0.1), seed=4),
        make_sequence(
            Sampling(greedy=True, presence_penalty=1.5, frequency_penalty=0.5), (7, 7, 8), logprobs=0
        ),
        make_sequence(Sampling(logit_bias={5: 20.0}), seed=2**64 - 1),
        make_sequence(
            Sampling(min_p=0.3), seed=6, stop_token_ids=frozenset(range(0, WIDTH, 2)), min_tokens=3
        ),
        make_sequence(Sampling(temperature=0.0), logprobs=2),
        make_sequence(Sampling(temperature=2.0), seed=7, matcher=AllowListed(3, 33, 303)),
        *unusual(),
    ]


def unusual() -> list[Sequence]:
    """Sequences with rare sampling parameters, which request logprobs."""
    window = PenaltyWindow((1, 2, 3), 1.7, 4, slope=2.0)
    shapes = [
        Sampling(temperature=1.4, typical_p=0.6, tgi_frequency_penalty=0.5),
        Sampling(temperature=0.9, tfs=0.9, penalty_window=window),
        Sampling(temperature=0.9, top_a=0.2, watermark=Watermark()),
        Sampling(temperature=0.8, tfs=0.8, top_k=30, warper_order=("tfs", "temperature")),
        Sampling(
            penalty_window=window, repetition_penalty=1.2, top_p=0.7, warper_order=("top_p", "repetition")
        ),
        Sampling(
            no_repeat_ngram_size=2, bad_words_ids=((5,), (4, 9), (9, 4, 4)), banned_first=frozenset((8,))
        ),
        Sampling(allowed_token_ids=frozenset(range(9, 90))),
        Sampling(
            greedy=True,
            penalty_window=window,
            watermark=Watermark(0.2, 5.0),
            allowed_token_ids=frozenset((4, 7, 8)),
        ),
    ]
    return [
        make_sequence(shape, (9, 4, 4), seed=row, logprobs=3 * (row % 2), processed_logprobs=row % 3 > 0)
        for row, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(dtype: torch.dtype) -> None:
    sampler = Sampler(WIDTH)
    for step in range(5):
        logits = some_logits(18, seed=step).to(dtype)
        together = sampler.sample_async(logits, variety()).wait()
        alone = [sampler.sample_async(logits[i : i + 1], [s]).wait()[0] for i, s in enumerate(variety())]
        assert together == alone


def test_the_order_of_rows_and_the_other_rows_do_not_matter() -> None:
    logits = some_logits(18)
    backwards = Sampler(WIDTH).sample_async(logits.flip(0), variety()[::-1]).wait()
    assert backwards[::-1] == Sampler(WIDTH).sample_async(logits, variety()).wait()


def test_greedy_rows_get_the_most_probable_token() -> None:
    logits = some_logits(6)
    rows = [
        make_sequence(),
        make_sequence(Sampling(temperature=0.0)),
        make_sequence(Sampling(greedy=True, temperature=9)),
    ] * 2
    assert [c.id for c in Sampler(WIDTH).sample_async(logits, rows).wait()] == logits.argmax(-1).tolist()


def test_sampling_leaves_the_logits_unchanged() -> None:
    logits = some_logits(18)
    before = logits.clone()
    Sampler(WIDTH).sample_async(logits, variety()).wait()
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
def test_tokens_are_sampled_as_often_as_their_probabilities_say(sampling: Sampling) -> None:
    draws, width = 20_000, 12
    logits = some_logits(1, width, seed=5)
    rows = [make_sequence(sampling, seed=seed) for seed in range(draws)]
    token_ids = torch.tensor(
        [c.id for c in Sampler(width).sample_async(logits.expand(draws, width), rows).wait()]
    )
    expected = draws * reference(logits, sampling)[0]
    counts = token_ids.bincount(minlength=width)
    assert int(counts[expected == 0].sum()) == 0
    possible = expected > 0
    chi_square = float(((counts - expected)[possible] ** 2 / expected[possible]).sum())
    assert chi_square < 40  # at most 11 degrees of freedom: exceeded less than once in 20,000


def test_a_seed_draws_differently_at_each_position_and_repeatably() -> None:
    flat = torch.zeros(20, WIDTH)
    rows = [make_sequence(Sampling(), (0,) * n, seed=3) for n in range(20)]
    first = [c.id for c in Sampler(WIDTH).sample_async(flat, rows).wait()]
    assert first == [c.id for c in Sampler(WIDTH).sample_async(flat, rows).wait()]
    assert len(set(first)) > 15


def test_a_near_zero_temperature_is_greedy() -> None:
    logits = some_logits(50)
    rows = [make_sequence(Sampling(temperature=1e-30), seed=seed) for seed in range(50)]
    assert [c.id for c in Sampler(WIDTH).sample_async(logits, rows).wait()] == logits.argmax(-1).tolist()


@pytest.mark.parametrize("ill", [float("nan"), float("-inf"), float("inf")])
def test_a_row_with_nan_is_reported_and_the_others_are_not_touched(ill: float) -> None:
    logits = some_logits(18)
    sound = Sampler(WIDTH).sample_async(logits, variety()).wait()
    for row in range(18):
        logits_with_nan = logits.clone()
        logits_with_nan[row] = ill
        assert Sampler(WIDTH).sample_async(logits_with_nan, variety()).wait() == [
            *sound[:row],
            SampledToken(NAN_LOGITS),
            *sound[row + 1 :],
        ]


@pytest.mark.parametrize("row", range(16))
def test_a_single_nan_breaks_its_row(row: int) -> None:
    logits = some_logits(18)
    logits[row, 303] = float("nan")
    broken = [
        i for i, c in enumerate(Sampler(WIDTH).sample_async(logits, variety()).wait()) if c.id == NAN_LOGITS
    ]
    assert broken == [row]


@pytest.mark.parametrize("greedy", [True, False])
def test_a_request_that_excludes_every_token_is_reported_and_the_others_are_sampled(greedy: bool) -> None:
    matcher = AllowListed(3)
    sampling = Sampling(
        greedy=greedy, bad_words_ids=((3,),), temperature=0.5, top_p=0.5, typical_p=0.5, tfs=0.5
    )
    rows = [
        make_sequence(),
        make_sequence(sampling, matcher=matcher, logprobs=2, processed_logprobs=True),
        make_sequence(),
    ]
    choices = Sampler(WIDTH).sample_async(some_logits(3), rows).wait()
    assert choices[0].id >= 0 and choices[1] == SampledToken(NO_ALLOWED_TOKEN) and choices[2].id >= 0
    assert matcher.advanced_ids == []


def test_columns_beyond_the_vocabulary_are_never_chosen() -> None:
    logits = some_logits(2, WIDTH + 60)
    logits[:, WIDTH:] = 50
    choices = (
        Sampler(WIDTH)
        .sample_async(logits, [make_sequence(logprobs=1), make_sequence(Sampling(), seed=1)])
        .wait()
    )
    assert choices[0].id == int(logits[0, :WIDTH].argmax()) and choices[1].id < WIDTH
    assert choices[0].top_logprobs[0][0] == choices[0].id


def test_a_matcher_advances_by_sampled_tokens_except_stop_tokens() -> None:
    ending, going, failing = AllowListed(44), AllowListed(44, 45), AllowListed(44)
    rows = [
        make_sequence(matcher=ending, stop_token_ids=frozenset((44,))),
        make_sequence(matcher=going),
        make_sequence(),
        make_sequence(matcher=failing),
    ]
    advance_matchers(rows, [44, 44, 44, NAN_LOGITS])
    assert (ending.advanced_ids, going.advanced_ids, failing.advanced_ids) == ([], [44], [])


@pytest.mark.parametrize("sampler", [Sampler(WIDTH), BatchInvariantSampler(WIDTH)])
@pytest.mark.parametrize("num_rows", [0, 3])
def test_rows_that_are_not_sampled_are_checked_for_numbers(sampler: Sampler, num_rows: int) -> None:
    logits, checked = some_logits(num_rows), some_logits(4)
    checked[1, 5], checked[2, 6] = torch.nan, torch.inf
    rows = [make_sequence(logprobs=2) for _ in range(num_rows)]
    sample = sampler.sample_async(logits, rows, checked)
    assert sample.wait() == sampler.sample_async(logits, rows).wait()
    assert sample.wait_finite() == [True, False, False, True]


def test_logprobs_come_from_the_raw_logits() -> None:
    logits = some_logits(3).bfloat16()
    heavy = Sampling(temperature=0.2, top_k=2, repetition_penalty=1.5, logit_bias={9: 30.0})
    rows = [make_sequence(heavy, seed=1, logprobs=3), make_sequence(), make_sequence(logprobs=0)]
    choices = Sampler(WIDTH).sample_async(logits, rows).wait()
    logprobs = logits.float().log_softmax(-1)
    assert choices[0].id == 9 and choices[0].logprob == float(logprobs[0, 9])
    best = logprobs[0].topk(3)
    assert choices[0].top_logprobs == tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    assert choices[1].logprob is None and choices[1].top_logprobs == ()
    assert choices[2].logprob == float(logprobs[2].max()) and choices[2].top_logprobs == ()


def test_more_alternatives_than_tokens_yield_all_tokens() -> None:
    choice = Sampler(5).sample_async(some_logits(1, 5), [make_sequence(logprobs=20)]).wait()[0]
    assert sorted(id for id, _ in choice.top_logprobs) == list(range(5))


def test_tied_alternatives_are_ordered_by_id_and_begin_with_the_greedy_choice() -> None:
    logits = torch.zeros(1, WIDTH)
    logits[0, [400, 30, 200, 100]] = 5.0
    for num_tops in (2, 4):
        choice = Sampler(WIDTH).sample_async(logits, [make_sequence(logprobs=num_tops)]).wait()[0]
        assert choice.id == 30
        assert [id for id, _ in choice.top_logprobs] == [30, 100, 200, 400][:num_tops]


def test_scores_are_logprobs_of_given_ids() -> None:
    logits = some_logits(4).bfloat16()
    logprobs = logits.float().log_softmax(-1)
    scores = Sampler(WIDTH).prompt_logprobs(logits, [5, 6, 7, 499], 2)
    assert [score.logprob for score in scores] == [
        float(logprobs[i, id]) for i, id in enumerate((5, 6, 7, 499))
    ]
    assert [score.top_logprobs[0][1] for score in scores] == logprobs.amax(-1).tolist()
    assert all(len(score.top_logprobs) == 2 for score in scores)
    assert Sampler(WIDTH).prompt_logprobs(logits, [5, 6, 7, 8], 0)[0] == PromptLogprob(
        float(logprobs[0, 5]), (), scores[0].rank
    )


def test_a_scores_rank_counts_the_tokens_at_least_as_likely() -> None:
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 0.0]] * 4)
    assert [score.rank for score in Sampler(5).prompt_logprobs(logits, [0, 2, 1, 4], 0)] == [1, 3, 4, 5]


def test_processed_logprobs_come_from_the_distribution_a_token_is_sampled_from() -> None:
    logits = some_logits(3)
    sampling = Sampling(temperature=0.5, top_k=3, logit_bias={9: 30.0}, repetition_penalty=1.5)
    rows = [
        make_sequence(sampling, seed=1, logprobs=5, processed_logprobs=True),
        make_sequence(
            Sampling(greedy=True, temperature=0.5, logit_bias={7: 30.0}), logprobs=2, processed_logprobs=True
        ),
        make_sequence(logprobs=1),
    ]
    choices = Sampler(WIDTH).sample_async(logits, rows).wait()
    edited = logits.clone()
    edited[0, 9] += 30
    edited[0] = RepetitionPenaltyLogitsProcessor(1.5)(torch.tensor([[1, 2, 3]]), edited[:1])
    edited[1, 7] += 30
    for choice, expected_logits in zip(choices, (edited[:1] / 0.5, edited[1:2], edited[2:]), strict=True):
        best = expected_logits.topk(3).values
        scores = (
            expected_logits.where(expected_logits >= best[:, -1:], -torch.inf)
            if choice is choices[0]
            else expected_logits
        )
        scores = scores.log_softmax(-1)[0]
        assert choice.logprob == pytest.approx(float(scores[choice.id]), abs=1e-5)
        assert [score for _, score in choice.top_logprobs] == pytest.approx(
            scores.topk(len(choice.top_logprobs)).values.tolist(), abs=1e-5
        )
    # tokens removed by top-k are left out
    assert [len(choice.top_logprobs) for choice in choices] == [3, 2, 1]


def test_warper_order_says_which_warper_comes_first() -> None:
    logits = torch.tensor([[4.0, 3.0, 2.0, 0.0]])
    hot = Sampling(temperature=10.0, top_p=0.85)
    first = replace(hot, warper_order=("top_p",))
    tops_by_order = [
        Sampler(4)
        .sample_async(logits, [make_sequence(s, logprobs=4, processed_logprobs=True)])
        .wait()[0]
        .top_logprobs
        for s in (hot, first)
    ]
    assert [len(tops) for tops in tops_by_order] == [4, 2]


def test_penalties_reach_greedy_rows() -> None:
    logits = torch.zeros(1, WIDTH)
    logits[0, 7], logits[0, 8] = 2.0, 1.5

    def sample(sampling: Sampling) -> int:
        return Sampler(WIDTH).sample_async(logits, [make_sequence(sampling, (7,))]).wait()[0].id

    assert sample(Sampling(greedy=True)) == 7
    assert sample(Sampling(greedy=True, presence_penalty=1.0)) == 8
    assert sample(Sampling(greedy=True, repetition_penalty=2.0)) == 8


def reference(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution a row is sampled from, by transformers' warpers in transformers' order."""
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
