"""Drafts, right or wrong, change no answer."""

import time
from collections.abc import Sequence as SequenceOf

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import SampledToken, Sampler
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import max_drafts_of
from inference.engine.step_result import accepted_drafts
from inference.sampling import Sampling
from tests.engine.conftest import END, NAN, POISON, Bench, FakeRunner, RecordingSink, logits_after
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.engine.oracle_proposer import OracleProposer, SeededOracleProposer
from tests.engine.sampling_kinds import KINDS


def make_bench(**shape: object) -> Bench:
    result = Bench(FakeRunner(**shape))
    result.probe.set_proposer(OracleProposer(result.probe.kv_cache, {}))
    return result


def concatenate_outputs(sink: RecordingSink) -> tuple[list[object], ...]:
    fields = ("token_ids", "logprobs", "top_logprobs")
    return tuple([item for record in sink.outputs for item in getattr(record, name)] for name in fields)


def test_outputs_with_several_tokens_add_up_to_the_same_answer() -> None:
    plain, drafted = Bench(FakeRunner()), make_bench()
    sinks = [bench.submit([5, 6, 7], 30, logprobs=0) for bench in (plain, drafted)]
    assert drafted.run_until_idle() < plain.run_until_idle()
    assert concatenate_outputs(sinks[0]) == concatenate_outputs(sinks[1])
    assert max(len(record.token_ids) for record in sinks[1].outputs) > 2
    assert sinks[1].finish_reason == "length" and len(sinks[1].token_ids) == 30


def test_nothing_is_emitted_after_a_stop_token_among_the_drafts() -> None:
    for end in range(1, 30):
        bench = make_bench()
        right = bench.expected_ids([5, 6, 7], 30, stop_token_ids=frozenset({end}))
        sink = bench.submit([5, 6, 7], 30, stop_token_ids=frozenset({end}))
        bench.probe.proposer.expected_outputs[(5, 6, 7), 30] = bench.expected_ids([5, 6, 7], 30)
        bench.run_until_idle()
        assert sink.token_ids == right and sink.finish_reason == ("stop" if end in right else "length")


def test_a_row_that_had_drafts_is_reused_correctly() -> None:
    bench = make_bench()
    first = bench.submit(range(1, 20), 20)
    bench.run_until_idle()
    prompt = [*range(1, 20), *first.token_ids]
    again = bench.submit(prompt, 5)
    bench.run_until_idle()
    assert again.outputs[0].num_cached_tokens == len(prompt) - 1
    assert again.token_ids == bench.expected_ids(prompt, 5)


def test_cancel_and_deadline_end_a_sequence_with_drafts() -> None:
    bench = make_bench()
    sinks = RecordingSink(), RecordingSink()
    cancelled = bench.submit_to(sinks[0], [5, 6, 7], 50)
    bench.submit_to(sinks[1], [8, 9], 50, deadline=0.01)
    bench.step(), bench.step()
    bench.engine.abort([cancelled])
    time.sleep(0.02)
    bench.run_until_idle()
    assert [sink.finish_reason for sink in sinks] == ["cancelled", "deadline"]
    assert sinks[0].token_ids == bench.expected_ids([5, 6, 7], 50)[: len(sinks[0].token_ids)]


@pytest.mark.parametrize("shape", ({"chunked_prefill": False}, {"encoder_decoder": True}), ids=str)
def test_models_without_chunked_prefill_get_no_drafts(shape: dict[str, bool]) -> None:
    bench = Bench(FakeRunner(**shape), speculate=8)
    sink = bench.submit([1, 2, 3, 4] * 4, 20)
    bench.run_until_idle()
    assert len(sink.token_ids) == 20 and bench.engine.stats().drafted_tokens == 0


class FragileRunner(FakeRunner):
    """A row whose last two tokens are 7 yields NaN logits until it is cleared."""

    def _logits(self, batch: object) -> torch.Tensor:
        logits, place = super()._logits(batch), 0
        for index, row in enumerate(batch.rows):
            indices = [
                at
                for at in batch.logits_indices
                if batch.query_start_loc[index] <= at < batch.query_start_loc[index + 1]
            ]
            for at in indices:
                end = batch.num_computed_tokens[index] + at - batch.query_start_loc[index] + 1
                if NAN in self.memory[row] or self.memory[row][end - 2 : end] == [7, 7]:
                    logits[place] = float("nan")
                    self.memory[row][-1] = NAN
                place += 1
        return logits


def test_a_draft_that_puts_nan_in_its_row_harms_no_other_sequence() -> None:
    bench = Bench(FragileRunner())
    oracle = OracleProposer(bench.probe.kv_cache, {})
    oracle.draft_ids = lambda sequence: [7, 7][: max_drafts_of(sequence, bench.probe.kv_cache)]
    bench.probe.set_proposer(oracle)
    sink = bench.submit([5, 6, 8], 12)
    bench.run_until_idle()
    assert 7 not in sink.token_ids and sink.token_ids == bench.expected_ids([5, 6, 8], 12)
    assert bench.engine.stats().preemptions == 5 and bench.engine.consecutive_failures == 0
    after = bench.submit([9, 8], 4)
    bench.run_until_idle()
    assert after.token_ids == bench.expected_ids([9, 8], 4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_sampling_gives_the_same_tokens_with_and_without_drafts(kind: str) -> None:
    plain = generate_by_kind([kind], {})
    drafted = generate_by_kind([kind], plain)
    assert concatenate_outputs(drafted[kind]) == concatenate_outputs(plain[kind])
    assert len(drafted[kind].outputs) < len(plain[kind].outputs)


def test_kinds_of_sampling_with_drafts_do_not_affect_each_other() -> None:
    plain = generate_by_kind(list(KINDS), {})
    together = generate_by_kind(list(KINDS), plain)
    assert all(concatenate_outputs(together[kind]) == concatenate_outputs(plain[kind]) for kind in KINDS)


def generate_by_kind(kinds: list[str], known: dict[str, RecordingSink]) -> dict[str, RecordingSink]:
    """The outputs for one prompt by kind of sampling; drafts are proposed where the outputs are known."""
    runner, ends = FakeRunner(max_sequences=16, kv_capacity=16 * 64), frozenset({9, END})
    engine = Engine(
        runner, Sampler(runner.vocab), EngineOptions(max_batch_tokens=64, max_queued_tokens=10_000)
    )
    if known:
        known_ids = {list(KINDS).index(kind): sink.token_ids for kind, sink in known.items()}
        probe = EngineProbe(engine)
        probe.set_proposer(SeededOracleProposer(probe.kv_cache, known_ids))
    sinks = {kind: RecordingSink() for kind in kinds}
    requests = [
        make_request(
            (3, 4, 5),
            24,
            KINDS[kind],
            min_tokens=15,
            stop_token_ids=ends,
            seed=list(KINDS).index(kind),
            logprobs=2,
            processed_logprobs=True,
        )
        for kind in kinds
    ]
    engine.submit(requests, list(sinks.values()))
    with torch.inference_mode():
        while engine.step():
            pass
    return sinks


def test_a_drafted_token_is_sampled_from_its_distribution() -> None:
    """The draft is always the most probable token. A chi-square test compares the ranks of the sampled tokens
    with their probabilities.
    """
    draws, temperature = 500, 4.0
    runner = FakeRunner(max_sequences=32, context=16, kv_capacity=512)
    engine = Engine(
        runner, Sampler(runner.vocab), EngineOptions(max_batch_tokens=64, max_queued_tokens=100_000)
    )
    probe = EngineProbe(engine)
    oracle = OracleProposer(probe.kv_cache, {})
    oracle.draft_ids = lambda sequence: [int(torch.tensor(logits_after(sequence.token_ids)).argmax())]
    probe.set_proposer(oracle)
    sinks = [RecordingSink() for _ in range(draws)]
    sampling = Sampling(temperature=temperature, bad_words_ids=((POISON,), (NAN,)))
    engine.submit([make_request((3, 4), 3, sampling, seed=seed) for seed in range(draws)], sinks)
    with torch.inference_mode():
        while engine.step():
            pass
    logits = torch.tensor([logits_after([3, 4, sink.token_ids[0]])[:POISON] for sink in sinks])
    probs = (logits / temperature).softmax(-1)
    ranks = torch.tensor(
        [int((p > p[sink.token_ids[1]]).sum()) for p, sink in zip(probs, sinks, strict=True)]
    )
    expected = probs.sort(descending=True).values.sum(0)
    likely = expected > 5
    chi = ((ranks.bincount(minlength=POISON) - expected)[likely] ** 2 / expected[likely]).sum()
    stats = engine.stats()
    assert 0 < stats.accepted_tokens < stats.drafted_tokens
    assert stats.drafts == stats.drafted_tokens  # one token each
    assert likely.sum() > 10 and chi < 2 * likely.sum(), chi


@pytest.mark.parametrize(
    ("drafts", "token_ids", "expected"),
    (
        ([], [5], [5]),
        ([5, 6], [5, 6, 7], [5, 6, 7]),
        ([5, 6], [5, 8, 7], [5, 8]),
        ([5, 6], [8, 6, 7], [8]),
        ([5, 0, 6], [5, 0, 6, 7], [5, 0]),
        ([5, 6], [5, -1, -1], [5]),
        ([5, 6], [-1, -1, -1], [-1]),
        ([], [], []),
    ),
)
def test_tokens_are_accepted_while_every_draft_before_them_is_right(
    drafts: SequenceOf[int], token_ids: SequenceOf[int], expected: SequenceOf[int]
) -> None:
    sequence = Sequence(0, make_request((1,), 9, stop_token_ids=frozenset({0})), None, [1])
    sequence.draft_token_ids = list(drafts)
    assert [
        choice.id for choice in accepted_drafts([SampledToken(id) for id in token_ids], sequence)
    ] == list(expected)
