"""Each logits processor against transformers' or values worked out by hand, and the order of processors."""

from dataclasses import dataclass, replace

import pytest
import torch
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
)

from inference.engine.sampling.processors import (
    PROCESSORS,
    add_logit_bias,
    allow_only,
    apply_grammar,
    apply_processors,
    forbid_bad_words,
    forbid_banned_tokens,
    forbid_first_tokens,
    forbid_repeated_ngrams,
    forbid_stop_tokens,
    requested_processors,
)
from inference.engine.sequence import Sequence
from inference.sampling import PenaltyWindow, Sampling, Watermark
from tests.engine.sequences import make_sequence, random_logits

WIDTH = 100


@dataclass
class AllowOnly:
    """A matcher whose bitmask of `words` 32-bit words allows `ids`."""

    ids: tuple[int, ...]
    words: int = (WIDTH + 31) // 32
    failure: str = ""

    def token_bitmask(self) -> torch.Tensor:
        bits = [sum(1 << id % 32 for id in self.ids if id // 32 == word) for word in range(self.words)]
        return torch.tensor([b - 2**32 if b >= 2**31 else b for b in bits], dtype=torch.int32)

    def advance(self, token: int) -> None:
        raise AssertionError("a processor advances no matcher")


class AllowAnything(AllowOnly):
    def token_bitmask(self) -> None:
        return None


@pytest.fixture
def logits() -> torch.Tensor:
    return random_logits(3, WIDTH)


def allowed_ids(row: torch.Tensor) -> list[int]:
    return row.isfinite().nonzero().flatten().tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_repeated_ngrams_are_forbidden_as_transformers_does(size: int) -> None:
    tokens = torch.randint(0, 4, (8, 60), generator=torch.Generator().manual_seed(size)).tolist()
    rows = {row: sequence_of(ids, no_repeat_ngram_size=size) for row, ids in enumerate(tokens)}
    logits = random_logits(8, WIDTH)
    expected = NoRepeatNGramLogitsProcessor(size)(torch.tensor(tokens), logits)
    forbid_repeated_ngrams(logits, rows)
    assert torch.equal(logits, expected)
    assert not bool(expected.isfinite().all())


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_text_shorter_than_the_ngram_forbids_nothing(length: int) -> None:
    logits, expected = random_logits(1, WIDTH), random_logits(1, WIDTH)
    forbid_repeated_ngrams(logits, {0: sequence_of([7] * length, no_repeat_ngram_size=4)})
    assert torch.equal(logits, NoRepeatNGramLogitsProcessor(4)(torch.tensor([[7] * length]), expected))


def test_bad_words_are_forbidden_as_transformers_does() -> None:
    chance = torch.Generator().manual_seed(3)
    runs = [torch.randint(0, 3, (size,), generator=chance).tolist() for size in (1, 2, 2, 3, 3, 3, 4, 9)]
    runs += [[50], [1, 60], [0, 1, 70]]
    tokens = torch.randint(0, 3, (32, 6), generator=chance).tolist()
    rows = {row: sequence_of(ids, bad_words_ids=tuple(map(tuple, runs))) for row, ids in enumerate(tokens)}
    logits = random_logits(32, WIDTH)
    expected = NoBadWordsLogitsProcessor(runs)(torch.tensor(tokens), logits)
    forbid_banned_tokens(logits, rows)
    forbid_bad_words(logits, rows)
    assert torch.equal(logits, expected)
    assert len({tuple(allowed_ids(row)) for row in logits}) > 3


def test_a_stop_token_can_be_banned_and_ids_beyond_the_logits_are_ignored(logits: torch.Tensor) -> None:
    bans = ((8,), (WIDTH + 3,), (1, WIDTH + 4))
    forbid_banned_tokens(
        logits, {1: make_sequence([1], [], Sampling(bad_words_ids=bans), stop_token_ids=frozenset((8,)))}
    )
    assert allowed_ids(logits[1]) == [id for id in range(WIDTH) if id != 8]
    assert bool(logits[[0, 2]].isfinite().all())


def test_only_allowed_tokens_and_stop_tokens_remain(logits: torch.Tensor) -> None:
    before = logits.clone()
    some = make_sequence(
        [1], [], Sampling(allowed_token_ids=frozenset((3, 5, WIDTH + 1))), stop_token_ids=frozenset((9,))
    )
    none = make_sequence([1], [], Sampling(allowed_token_ids=frozenset()), stop_token_ids=frozenset((8,)))
    allow_only(logits, {0: some, 2: none})
    assert [allowed_ids(row) for row in logits] == [[3, 5, 9], list(range(WIDTH)), [8]]
    assert torch.equal(logits[0, [3, 5, 9]], before[0, [3, 5, 9]])


def test_banned_first_tokens_are_forbidden(logits: torch.Tensor) -> None:
    forbid_first_tokens(logits, {1: make_sequence([1], [], Sampling(banned_first=frozenset((4, 5))))})
    assert allowed_ids(logits[1]) == [id for id in range(WIDTH) if id not in (4, 5)]


def test_stop_tokens_before_min_tokens_are_forbidden_as_transformers_does(logits: torch.Tensor) -> None:
    expected = logits.clone()
    processor = MinNewTokensLengthLogitsProcessor(1, 3, [8, 9])
    expected[1:2] = processor(torch.tensor([[1, 2]]), logits[1:2])
    forbid_stop_tokens(
        logits, {1: make_sequence([1], [2], min_tokens=3, stop_token_ids=frozenset((8, 9, WIDTH + 5)))}
    )
    assert torch.equal(logits, expected)


def test_a_constraint_changes_only_the_forbidden_tokens_of_its_row(logits: torch.Tensor) -> None:
    before = logits.clone()
    apply_grammar(logits, {0: make_sequence([1], [], matcher=AllowOnly((0, 31, 32, 63, 95, 99)))})
    assert logits[0].isfinite().nonzero().flatten().tolist() == [0, 31, 32, 63, 95, 99]
    assert torch.equal(logits[0, [31, 99]], before[0, [31, 99]])
    assert torch.equal(logits[1:], before[1:])


@pytest.mark.parametrize("words", [1, 2, 9])
def test_a_bitmask_of_another_width_forbids_the_tokens_it_does_not_cover(
    logits: torch.Tensor, words: int
) -> None:
    apply_grammar(logits, {2: make_sequence([1], [], matcher=AllowOnly((5, 40), words))})
    assert logits[2].isfinite().nonzero().flatten().tolist() == [id for id in (5, 40) if id < 32 * words]


def test_a_matcher_that_allows_everything_changes_nothing(logits: torch.Tensor) -> None:
    before = logits.clone()
    apply_grammar(
        logits,
        {
            0: make_sequence([1], [], matcher=AllowAnything(())),
            1: make_sequence([1], [], matcher=AllowOnly((4,))),
        },
    )
    assert torch.equal(logits[0], before[0])
    assert logits[1].isfinite().nonzero().flatten().tolist() == [4]


def test_a_constraint_delays_stop_tokens_while_another_token_is_allowed(logits: torch.Tensor) -> None:
    short = {"min_tokens": 3, "stop_token_ids": frozenset((8, 31))}
    apply_grammar(
        logits,
        {
            0: make_sequence([1], [2], matcher=AllowOnly((7, 8, 31)), **short),
            1: make_sequence([1], [2], matcher=AllowOnly((8, 31)), **short),
            2: make_sequence([1], [2, 3, 4], matcher=AllowOnly((7, 8)), **short),
        },
    )
    allowed = [allowed_ids(row) for row in logits]
    assert allowed == [[7], [8, 31], [7, 8]]


def test_an_early_stop_token_is_allowed_if_bans_leave_no_other_token_of_a_constraint(
    logits: torch.Tensor,
) -> None:
    logits[0, 7] = -torch.inf
    apply_grammar(
        logits,
        {0: make_sequence([1], [], matcher=AllowOnly((7, 8)), min_tokens=3, stop_token_ids=frozenset((8,)))},
    )
    assert allowed_ids(logits[0]) == [8]


def sequence_of(tokens: list[int], **sampling: object) -> Sequence:
    """A sequence of these tokens; the last one is its output."""
    return make_sequence(tokens[:-1], tokens[-1:], Sampling(**sampling))


ORDER = ("temperature", "repetition")


def test_a_bias_is_added_and_ids_beyond_the_logits_are_ignored(logits: torch.Tensor) -> None:
    before = logits.clone()
    biases = {3: 5.0, 9: -100.0, WIDTH: 7.0, -1: 7.0}
    add_logit_bias(
        logits,
        {
            0: make_sequence([1], [], Sampling(logit_bias=biases)),
            2: make_sequence([1], [], Sampling(logit_bias={0: 1.0})),
        },
    )
    expected = before.clone()
    expected[0, 3] += 5
    expected[0, 9] -= 100
    expected[2, 0] += 1
    assert torch.equal(logits, expected)


def test_logits_are_copied_only_when_a_processor_applies(logits: torch.Tensor) -> None:
    before = logits.clone()
    plain = [make_sequence([1], [2], Sampling(temperature=0.5, top_k=3)) for _ in range(3)]
    assert apply_processors(logits, plain) is logits
    edited = apply_processors(logits, [*plain[:2], make_sequence([1], [2], Sampling(repetition_penalty=2.0))])
    assert torch.equal(logits, before)
    assert torch.equal(edited[:2], before[:2]) and not torch.equal(edited[2], before[2])


EACH = (
    Sampling(logit_bias={3: 1.0}),
    Sampling(watermark=Watermark()),
    Sampling(repetition_penalty=2.0),
    Sampling(penalty_window=PenaltyWindow((2, 3), 2.0, 2)),
    Sampling(presence_penalty=1.0),
    Sampling(frequency_penalty=1.0),
    Sampling(tgi_frequency_penalty=1.0),
    Sampling(no_repeat_ngram_size=1),
    Sampling(allowed_token_ids=frozenset((3,))),
    Sampling(bad_words_ids=((3,),)),
    Sampling(banned_first=frozenset((3,))),
)


@pytest.mark.parametrize("sampling", EACH)
def test_every_processor_applies_to_greedy_and_to_sampled_rows(sampling: Sampling) -> None:
    logits = random_logits(1, WIDTH)
    output_ids = [] if sampling.banned_first else [5]
    sampled_logits = apply_processors(logits, [make_sequence([2, 3], output_ids, sampling)])
    greedy = apply_processors(logits, [make_sequence([2, 3], output_ids, replace(sampling, greedy=True))])
    assert torch.equal(sampled_logits, greedy) and not torch.equal(sampled_logits, logits)
    assert len(requested_processors(make_sequence([2, 3], output_ids, sampling), PROCESSORS)) == 1


def test_tokens_that_may_not_begin_an_answer_may_continue_it(logits: torch.Tensor) -> None:
    rows = [
        make_sequence([1], output_ids, Sampling(banned_first=frozenset((4,))))
        for output_ids in ([], [2], [4])
    ]
    assert apply_processors(logits, rows)[:, 4].isfinite().tolist() == [False, True, True]


def test_a_bias_does_not_undo_a_ban(logits: torch.Tensor) -> None:
    sampling = Sampling(logit_bias={4: 100.0}, bad_words_ids=((4,),), watermark=Watermark(delta=100.0))
    assert float(apply_processors(logits, [make_sequence([1], [2], sampling)] * 3)[0, 4]) == -torch.inf
