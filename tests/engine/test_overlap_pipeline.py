"""Steps launched before the previous step's tokens are known change no answer, and most steps are."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import PendingSample, SampledToken, Sampler
from inference.engine.step_output import StepOutput
from inference.engine.step_result import MODEL_FAILED
from inference.engine_stats import StepStats
from inference.model.batch import Batch
from inference.sampling import PenaltyWindow, Sampling, Watermark
from tests.engine.conftest import END, NAN, POISON, VOCAB, RecordingSink
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.engine.next_token_runner import NextTokenRunner
from tests.engine.paged_bench import GREEDY, LENGTH, PROMPTS, PagedBench, make_requests

NUMBERS = ((POISON,), (NAN,))  # must not be sampled
SAMPLED = Sampling(temperature=2.0, bad_words_ids=NUMBERS)


@dataclass
class AllowEverything:
    """A matcher that allows every token and records those it advances by."""

    token_ids: list[int] = field(default_factory=list)
    failure: str = ""

    def token_bitmask(self) -> None:
        return None

    def advance(self, token: int) -> None:
        self.token_ids.append(token)


def run_both(drive: Callable[[PagedBench], object], **shape: Any) -> tuple[PagedBench, PagedBench]:
    """Drives an engine that launches steps early and one that does not in the same way."""
    early, plain = PagedBench(True, **shape), PagedBench(False, **shape)
    for bench in (early, plain):
        drive(bench)
        bench.run_until_idle()
    assert early.runner.early and not plain.runner.early
    return early, plain


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampling": SAMPLED},
        {"sampling": replace(SAMPLED, top_k=5, top_p=0.9, min_p=0.01)},
        {"logprobs": 3},
        {"logprobs": 2, "processed_logprobs": True, "sampling": replace(SAMPLED, temperature=0.7)},
        {"prompt_logprobs": 1},
        {"min_tokens": 12, "stop_token_ids": frozenset(range(16))},
        {"stop_token_ids": frozenset(range(8))},
        {"sampling": replace(GREEDY, logit_bias={END: 3.0, 7: 2.0})},
        {"sampling": replace(SAMPLED, allowed_token_ids=frozenset(range(3, 12)))},
        {"sampling": replace(SAMPLED, banned_first=frozenset(range(3, 12)))},
    ],
)
def test_early_steps_change_no_answer(options: dict[str, Any]) -> None:
    early, plain = run_both(lambda bench: bench.submit(*make_requests(**options)))
    assert early.outputs == plain.outputs


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": replace(GREEDY, repetition_penalty=1.5)},
        {"sampling": replace(SAMPLED, repetition_penalty=1.5, warper_order=("temperature", "repetition"))},
        {"sampling": replace(GREEDY, penalty_window=PenaltyWindow((3, 4), 1.4, 6))},
        {"sampling": replace(GREEDY, presence_penalty=1.0)},
        {"sampling": replace(GREEDY, tgi_frequency_penalty=1.0)},
        {"sampling": replace(GREEDY, no_repeat_ngram_size=2)},
        {"sampling": replace(GREEDY, bad_words_ids=((7, 8),))},
        {"sampling": replace(GREEDY, watermark=Watermark())},
    ],
)
def test_choices_that_depend_on_the_previous_token_are_the_same_in_overlapped_steps(
    options: dict[str, Any],
) -> None:
    early, plain = run_both(lambda bench: bench.submit(make_requests(**options)[0], *make_requests()[1:]))
    assert early.outputs == plain.outputs
    assert early.share_overlapped > 0.8


def test_a_matcher_advances_once_by_each_token_of_its_answer() -> None:
    """Also where a token in flight is discarded: a preempted sequence samples it again."""
    matchers = [AllowEverything() for _ in PROMPTS]
    bench = PagedBench(True)
    bench.submit(*make_requests(sampling=SAMPLED), matchers=matchers)
    for turn in range(12):
        bench.step()
        if turn % 4 == 3 and bench.probe.running:
            bench.probe.preempt(bench.probe.running[0])
    bench.run_until_idle()
    plain = PagedBench(False)
    plain.submit(*make_requests(sampling=SAMPLED))
    assert [sink.token_ids for sink in bench.sinks] == [
        sink.token_ids for sink in plain.run_until_idle().sinks
    ]
    assert [matcher.token_ids for matcher in matchers] == [
        [id for id in sink.token_ids if id != END] for sink in bench.sinks
    ]


class FailingMatcher(AllowEverything):
    def advance(self, token: int) -> None:
        if len(self.token_ids) == 3:
            raise ValueError("the grammar library")
        super().advance(token)


def test_a_matcher_that_fails_ends_its_own_answer_only() -> None:
    bench, plain = PagedBench(True), PagedBench(False)
    for each in (bench, plain):
        first, *others = make_requests(stop_token_ids=frozenset())
        each.submit(first, *others, matchers=[FailingMatcher(), *[None] * len(others)])
        each.run_until_idle()
    assert bench.outputs == plain.outputs and not bench.probe.num_failed_early_steps
    assert [str(sink.outputs[-1].error or "") for sink in bench.sinks] == [MODEL_FAILED, "", "", ""]


def test_answers_to_one_prompt_use_separate_random_streams() -> None:
    copies = [make_request((4, 5, 6), LENGTH, SAMPLED, seed=seed) for seed in (1, 2, 3)]
    early, plain = run_both(lambda bench: bench.submit(*copies))
    assert early.outputs == plain.outputs
    assert len({tuple(sink.token_ids) for sink in early.sinks}) == 3


def test_chunked_prompts_and_later_arrivals_change_nothing() -> None:
    def drive(bench: PagedBench) -> None:
        for turns, ids in enumerate((range(3, 28), range(4, 29), range(5, 29), (6, 7), range(3, 28))):
            bench.submit(make_request(tuple(ids) * 2, LENGTH + turns, SAMPLED, seed=turns))
            bench.step(turns)

    early, plain = run_both(drive)
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]


def test_sequences_that_share_a_prompt_use_no_more_than_the_kv_capacity() -> None:
    bench = PagedBench(True, kv_capacity=96)
    bench.submit(*[make_request((*range(4, 24),) * 4, 8, GREEDY) for _ in range(4)])
    num_running = 0
    while bench.step():
        stats = bench.engine.stats()
        assert stats.kv_used <= stats.kv_capacity
        num_running = max(num_running, stats.running)
    assert num_running > 1


def test_a_new_request_is_in_the_next_step_that_is_launched() -> None:
    bench = PagedBench(True)
    bench.submit(*make_requests()[:2])
    bench.step(5)
    batches: list[Batch] = []
    bench.runner.on_forward = lambda batch, moved: batches.append(batch)
    bench.submit(make_request((4, 5, 6), 4, GREEDY))
    bench.step()
    assert batches[0].token_ids[-3:] == [4, 5, 6]


def test_the_only_stream_gets_its_token_before_the_next_step_is_launched() -> None:
    events: list[str] = []

    class EventSink(RecordingSink):
        def put(self, output: StepOutput) -> None:
            events.append("token")

    bench = PagedBench(True)
    bench.runner.on_forward = lambda batch, moved: None if moved else events.append("launch")
    bench.engine.submit([make_request((4, 5), 4, GREEDY)], [EventSink()])
    bench.run_until_idle()
    assert events == ["launch", "launch", "token", "launch", "token", "launch", "token", "token"]


def test_nothing_follows_a_stop_token() -> None:
    """The step in flight when the answer ends has sampled another token for that row."""
    known = PagedBench(False)
    known.submit(*make_requests(stop_token_ids=frozenset()))
    output_ids = [sink.token_ids for sink in known.run_until_idle().sinks]
    last = output_ids[1][6]
    early, plain = run_both(
        lambda bench: bench.submit(*(replace(request, stop_token_ids=(last,)) for request in make_requests()))
    )
    assert early.outputs == plain.outputs
    assert early.sinks[1].finish_reason == "stop" and early.sinks[1].token_ids[-1] == last
    assert early.engine.stats().generated_tokens == sum(len(sink.token_ids) for sink in early.sinks)


@pytest.mark.parametrize("kv_capacity", (48, 64, 400))
def test_reused_rows_give_each_sequence_its_own_tokens(
    kv_capacity: int,
) -> None:
    """Sequences are cancelled, preempted and ended while a step is in flight, with enough memory or too
    little.
    """

    def drive(bench: PagedBench) -> None:
        bench.submit(
            *make_requests(),
            *make_requests(sampling=SAMPLED),
            *make_requests(stop_token_ids=frozenset(range(9))),
        )
        for turn in range(30):
            bench.step()
            if turn in (9, 17) and bench.probe.running:
                bench.probe.preempt(bench.probe.running[0])
            if turn in (5, 13, 21):
                bench.engine.abort([bench.ids[turn % 8]])

    early, plain = run_both(drive, kv_capacity=kv_capacity)
    for sink, other in zip(early.sinks, plain.sinks, strict=True):
        shorter = min(len(sink.token_ids), len(other.token_ids))
        assert sink.token_ids[:shorter] == other.token_ids[:shorter]
        assert "cancelled" in (sink.finish_reason, other.finish_reason) or sink.token_ids == other.token_ids


def test_a_sequence_that_gets_its_pages_back_in_another_row_gets_its_own_token() -> None:
    """Its new row comes before its neighbour's: the rows of a step ascend."""

    def drive(bench: PagedBench) -> None:
        bench.submit(
            *(make_request((first,) * length, LENGTH, GREEDY) for first, length in ((7, 1), (8, 1), (9, 3)))
        )
        bench.step(2)
        bench.engine.abort(bench.ids[:1])
        bench.step(4)
        bench.probe.preempt(bench.probe.running[-1])

    early, plain = run_both(drive)
    assert [sink.token_ids for sink in early.sinks[1:]] == [sink.token_ids for sink in plain.sinks[1:]]


def test_prefix_caching_ignores_discarded_tokens() -> None:
    early, plain = PagedBench(True), PagedBench(False)
    for bench in (early, plain):
        bench.submit(*make_requests(max_tokens=13))
        bench.run_until_idle()
        bench.submit(
            *(
                make_request((*ids, *sink.token_ids, 3), 8, GREEDY)
                for ids, sink in zip(PROMPTS, bench.sinks, strict=True)
            )
        )
        bench.run_until_idle()
    assert early.runner.early and early.outputs == plain.outputs


def test_nan_logits_fail_only_their_own_request() -> None:
    """The early step computes the sampled NAN token, which makes its row's logits NaN."""
    wild = make_request((4, 5), LENGTH, replace(GREEDY, logit_bias={NAN: 100.0}))
    early, plain = run_both(lambda bench: bench.submit(*make_requests(stop_token_ids=frozenset())[:3], wild))
    assert early.outputs == plain.outputs
    assert "not a number" in str(early.sinks[3].outputs[-1].error)


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("max_tokens", [0, 5])
def test_nan_in_a_chunk_fails_the_prompt_before_it_is_computed(overlaps: bool, max_tokens: int) -> None:
    bench = PagedBench(overlaps)
    num_tokens: list[int] = []
    bench.runner.on_forward = lambda batch, moved: moved or num_tokens.append(len(batch.token_ids))
    (sink,) = bench.submit(make_request((4, NAN, *range(4, 28)) * 3, max_tokens, GREEDY))
    bench.run_until_idle()
    assert "not a number" in str(sink.outputs[-1].error)
    assert num_tokens == [32] * (2 if overlaps else 1)


def test_the_reported_steps_are_those_without_overlap() -> None:
    """The same tokens are computed, and the prompts count once, as do the sequences that get a row."""
    steps: dict[bool, list[StepStats]] = {True: [], False: []}
    for overlaps, reported in steps.items():
        bench = PagedBench(overlaps)
        bench.engine.set_step_listener(reported.append)
        bench.submit(
            *make_requests(stop_token_ids=frozenset()), make_request(tuple(range(4, 28)) * 2, 9, GREEDY)
        )
        bench.run_until_idle()
    early, plain = (
        [(s.num_tokens, s.has_prompt, s.num_newly_scheduled) for s in steps[key]] for key in steps
    )
    assert [sum(values) for values in zip(*early, strict=True)][::2] == [
        sum(values) for values in zip(*plain, strict=True)
    ][::2]
    assert sum(has_prompt for _, has_prompt, _ in early) <= sum(has_prompt for _, has_prompt, _ in plain) + 1
    assert all(each.seconds >= 0 and not each.failed for each in steps[True])


def test_nan_in_a_discarded_result_harms_no_pages_of_others() -> None:
    """The answer ends with the NAN token: the early step writes it to a page that other sequences get."""
    wild = make_request(
        (4, 5, 6, 7, 8, 9), LENGTH, replace(GREEDY, logit_bias={NAN: 100.0}), stop_token_ids=frozenset({NAN})
    )

    def drive(bench: PagedBench) -> None:
        bench.submit(make_requests()[0], wild, wild, wild)
        for _ in range(6):
            bench.step()
            bench.submit(*make_requests(max_tokens=5, stop_token_ids=frozenset())[:2], wild)

    early, plain = run_both(drive, kv_capacity=48)
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]
    assert {sink.finish_reason for sink in early.sinks} == {"length", "stop"}


def test_a_sequence_at_its_last_token_or_in_a_full_row_gets_no_further_token() -> None:
    early, plain = run_both(
        lambda bench: bench.submit(*make_requests(max_tokens=200, stop_token_ids=frozenset())), context=32
    )
    assert early.outputs == plain.outputs and {sink.finish_reason for sink in early.sinks} == {"length"}


def test_without_a_free_page_the_next_step_is_scheduled_before_it_is_launched() -> None:
    early, plain = run_both(
        lambda bench: bench.submit(*make_requests(max_tokens=30, stop_token_ids=frozenset())), kv_capacity=36
    )
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]
    assert early.engine.stats().preemptions


def test_the_host_waits_for_nothing_but_the_tokens_of_the_step_before() -> None:
    """A step is launched while the device computes another one, whatever the steps contain."""
    bench = PagedBench(True, asynchronous=True)
    for turn, request in enumerate(make_requests(stop_token_ids=frozenset(range(5))) * 3):
        penalty = 1.5 if turn % 3 else 1.0
        prompt_ids = request.prompt * (1 + 7 * (turn % 2))
        bench.submit(
            replace(request, prompt=prompt_ids, sampling=replace(SAMPLED, repetition_penalty=penalty))
        )
        bench.step(2)
    assert len(bench.probe.running) > 1
    events = bench.runner.device.events
    num_steps = events[-1][1]
    assert num_steps > 20 and events == [
        ("launch", 0),
        ("sample", 0),
        ("launch", 1),
        *(
            event
            for step in range(1, num_steps)
            for event in (("wait", step - 1), ("sample", step), ("launch", step + 1))
        ),
    ]


def test_plain_steps_follow_a_step_that_cannot_be_overlapped() -> None:
    bench, plain = PagedBench(True), PagedBench(False)
    bench.may_fail = True

    def fault(batch: Batch, moved: bool) -> None:
        if batch.pending_tokens is not None:
            raise torch.OutOfMemoryError("only ahead")

    bench.runner.on_forward = fault
    for each in (bench, plain):
        each.submit(*make_requests())
        each.run_until_idle()
    assert bench.outputs == plain.outputs and not bench.engine.stats().oom_steps
    assert bench.runner.early == 0 and bench.probe.num_failed_early_steps == 4


@pytest.mark.parametrize("failing_call", range(1, 9))
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("once"), ValueError("once")])
def test_a_step_in_flight_that_cannot_be_sampled_is_computed_again(
    failing_call: int, error: Exception
) -> None:
    class UncertainSampler(Sampler):
        num_calls = 0

        def sample_async(self, logits: torch.Tensor, sequences: Any, checked: Any = None) -> PendingSample:
            self.num_calls += 1
            if self.num_calls == failing_call:
                raise error
            return super().sample_async(logits, sequences, checked)

    bench, plain = PagedBench(True, UncertainSampler(VOCAB)), PagedBench(False)
    bench.may_fail = True
    for each in (bench, plain):
        each.submit(*make_requests(sampling=SAMPLED))
        each.run_until_idle()
    assert bench.outputs == plain.outputs and bench.probe.num_failed_early_steps == 1


class UnreadableSampler(Sampler):
    """Samples tokens that cannot be read, once, in the fourth step."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.num_samples = 0

    def sample_async(self, logits: torch.Tensor, sequences: Any, checked: Any = None) -> PendingSample:
        self.num_samples += 1
        sample = super().sample_async(logits, sequences, checked)
        return PendingSample(sample.token_ids, self.refuse) if self.num_samples == 4 else sample

    def refuse(self) -> list[SampledToken]:
        raise ValueError("cannot be read")


def test_a_step_in_flight_whose_tokens_cannot_be_read_is_computed_again() -> None:
    bench, plain = PagedBench(True, UnreadableSampler()), PagedBench(False)
    bench.may_fail = True
    for each in (bench, plain):
        each.submit(*make_requests())
        each.run_until_idle()
    assert bench.outputs == plain.outputs
    assert bench.runner.early and bench.probe.num_failed_early_steps == 1


def test_likely_drafts_take_precedence_over_early_steps() -> None:
    repeating = [make_request((5, 6, 7) * 6, 40, GREEDY)]
    early, plain = run_both(lambda bench: bench.submit(*repeating), drafts=6)
    assert early.sinks[0].token_ids == plain.sinks[0].token_ids
    assert early.engine.stats().accepted_tokens > 10


class Load(NamedTuple):
    """Requests that arrive as others end, so that most steps contain a prompt."""

    rows: int
    num_requests: int
    max_tokens: int
    token_budget: int = 2048
    penalised_share: float = 0.0
    stop_token_ids: frozenset[int] = frozenset()


LOADS = {
    "32 rows, 96 tokens": Load(32, 100, 96),
    "32 rows, 300 tokens": Load(32, 80, 300),
    "5 % with a penalty": Load(32, 100, 96, penalised_share=0.05),
    "256 rows, budget 512": Load(256, 300, 48, token_budget=512),
    "answers that stop": Load(32, 120, 300, stop_token_ids=frozenset({1, 2})),
}


@pytest.mark.parametrize("name", LOADS)
def test_nearly_all_steps_are_overlapped(name: str) -> None:
    engine, sinks = run_load(LOADS[name], overlap=True)
    plain_engine, plain_sinks = run_load(LOADS[name], overlap=False)
    stats, plain_stats = engine.stats(), plain_engine.stats()
    assert EngineProbe(engine).num_overlapped / stats.steps >= 0.9
    assert [sink.token_ids for sink in sinks] == [sink.token_ids for sink in plain_sinks]
    assert stats.steps < 1.15 * plain_stats.steps, "rows wait little for tokens that are pending"
    assert stats.generated_tokens == plain_stats.generated_tokens
    assert stats.preemptions == plain_stats.preemptions == 0


@torch.inference_mode()
def run_load(load: Load, overlap: bool) -> tuple[Engine, list[RecordingSink]]:
    rng = random.Random(5)
    runner = NextTokenRunner(load.rows, overlap)
    engine = Engine(
        runner,
        Sampler(runner.vocab),
        EngineOptions(max_batch_tokens=load.token_budget, max_queued_tokens=10**6),
    )
    EngineProbe(engine).ignore_step_times()
    requests = [
        make_request(
            tuple(rng.choices(range(runner.vocab), k=rng.randint(20, 180))),
            rng.randint(load.max_tokens // 2, load.max_tokens),
            Sampling(presence_penalty=0.5 if rng.random() < load.penalised_share else 0.0),
            stop_token_ids=load.stop_token_ids,
            seed=seed,
        )
        for seed in range(load.num_requests)
    ]
    sinks = [RecordingSink() for _ in requests]
    engine.submit(requests, sinks)
    engine.run_until_idle()
    return engine, sinks
