"""Steps launched before the previous step's tokens are known change no answer."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import PendingSample, SampledToken, Sampler
from inference.engine.sequence import Task
from inference.model.batch import Batch
from inference.sampling import PenaltyWindow, Sampling, Watermark
from tests.engine.conftest import END, NAN, POISON, VOCAB, RecordingSink
from tests.engine_probe import EngineProbe
from tests.walks.paged_echo_runner import PagedEchoRunner

NUMBERS = ((POISON,), (NAN,))  # must not be sampled
GREEDY = Sampling(greedy=True)
SAMPLED = Sampling(temperature=2.0, bad_words_ids=NUMBERS)
PROMPTS = ((4, 5, 6), (7, 8), (9, 10, 11, 12, 13), (14,))
LENGTH = 20


@dataclass
class AllowEverything:
    """A matcher that allows every token and records those it advances by."""

    token_ids: list[int] = field(default_factory=list)

    def token_bitmask(self) -> None:
        return None

    def advance(self, token: int) -> None:
        self.token_ids.append(token)


class PagedBench:
    """An engine over paged memory, driven step by step; with `overlaps` its runner is async-capable.

    If `may_fail` is set, early steps may fail: they are then scheduled as usual and no answer changes.
    """

    may_fail = False

    def __init__(self, overlaps: bool, sampler: Sampler | None = None, drafts: int = 0, **shape: Any) -> None:
        self.runner = PagedEchoRunner(
            **{"max_sequences": 4, "kv_capacity": 400, "context": 96} | shape, async_capable=overlaps
        )
        self.engine = Engine(
            self.runner,
            sampler or Sampler(VOCAB),
            max_batch_tokens=32,
            max_queued_tokens=10_000,
            speculate=drafts,
        )
        self.probe = EngineProbe(self.engine)
        self.sinks: list[RecordingSink] = []
        self.ids: list[int] = []

    def submit(self, *tasks: Task) -> list[RecordingSink]:
        sinks = [RecordingSink() for _ in tasks]
        self.ids += self.engine.submit(tasks, sinks)
        self.sinks += sinks
        return sinks

    @torch.inference_mode()
    def step(self, count: int = 1) -> bool:
        busy = True
        for _ in range(count):
            busy = self.engine.step()
            self.probe.check()
            assert self.may_fail or not self.probe.num_failed_early_steps
        return busy

    def run_until_idle(self) -> "PagedBench":
        for _ in range(500):
            if not self.step():
                return self
        raise AssertionError("still busy")

    @property
    def outputs(self) -> list[list[tuple[object, ...]]]:
        """All outputs of each task, without the queue times."""
        return [
            [
                (
                    r.token_ids,
                    r.logprobs,
                    r.top_logprobs,
                    r.num_cached_tokens,
                    r.prompt_logprobs,
                    r.finish_reason,
                    str(r.error or ""),
                )
                for r in sink.outputs
            ]
            for sink in self.sinks
        ]


def run_both(drive: Callable[[PagedBench], object], **shape: Any) -> tuple[PagedBench, PagedBench]:
    """Drives an engine that launches steps early and one that does not in the same way."""
    early, plain = PagedBench(True, **shape), PagedBench(False, **shape)
    for bench in (early, plain):
        drive(bench)
        bench.run_until_idle()
    assert early.runner.early and not plain.runner.early
    return early, plain


def tasks(**options: Any) -> list[Task]:
    task_fields = {"sampling": GREEDY, "stop_token_ids": frozenset({END}), "max_tokens": LENGTH} | options
    return [Task(ids, seed=seed, **task_fields) for seed, ids in enumerate(PROMPTS)]


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
    early, plain = run_both(lambda bench: bench.submit(*tasks(**options)))
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
        {"matcher": AllowEverything()},
    ],
)
def test_no_step_is_launched_early_if_a_choice_depends_on_the_previous_token(
    options: dict[str, Any],
) -> None:
    bench = PagedBench(True)
    bench.submit(tasks(**options)[0])
    bench.submit(*tasks()[1:])
    while not bench.sinks[0].has_ended:
        bench.step()
        assert not bench.runner.early
    bench.run_until_idle()
    plain = PagedBench(False)
    plain.submit(tasks(**options)[0], *tasks()[1:])
    assert bench.outputs == plain.run_until_idle().outputs


def test_answers_to_one_prompt_use_separate_random_streams() -> None:
    copies = [Task((4, 5, 6), LENGTH, SAMPLED, seed=seed) for seed in (1, 2, 3)]
    early, plain = run_both(lambda bench: bench.submit(*copies))
    assert early.outputs == plain.outputs
    assert len({tuple(sink.token_ids) for sink in early.sinks}) == 3


def test_chunked_prompts_and_later_arrivals_change_nothing() -> None:
    def drive(bench: PagedBench) -> None:
        for turns, ids in enumerate((range(3, 28), range(4, 29), range(5, 29), (6, 7), range(3, 28))):
            bench.submit(Task(tuple(ids) * 2, LENGTH + turns, SAMPLED, seed=turns))
            bench.step(turns)

    early, plain = run_both(drive)
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]


def test_sequences_that_share_a_prompt_use_no_more_than_the_kv_capacity() -> None:
    bench = PagedBench(True, kv_capacity=96)
    bench.submit(*[Task((*range(4, 24),) * 4, 8, GREEDY) for _ in range(4)])
    num_running = 0
    while bench.step():
        stats = bench.engine.stats()
        assert stats.kv_used <= stats.kv_capacity
        num_running = max(num_running, stats.running)
    assert num_running > 1


def test_a_new_request_waits_at_most_one_step_longer() -> None:
    def first(bench: PagedBench) -> int:
        bench.submit(*tasks()[:2])
        bench.step(5)
        (sink,) = bench.submit(tasks()[2])
        return next(turns for turns in range(9) if sink.outputs or bench.step() is None)

    assert first(PagedBench(True)) <= first(PagedBench(False)) + 1


def test_nothing_follows_a_stop_token() -> None:
    """The step in flight when the answer ends has sampled another token for that row."""
    known = PagedBench(False)
    known.submit(*tasks(stop_token_ids=frozenset()))
    output_ids = [sink.token_ids for sink in known.run_until_idle().sinks]
    last = output_ids[1][6]
    early, plain = run_both(
        lambda bench: bench.submit(*(replace(task, stop_token_ids=frozenset({last})) for task in tasks()))
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
        bench.submit(*tasks(), *tasks(sampling=SAMPLED), *tasks(stop_token_ids=frozenset(range(9))))
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
        bench.submit(*(Task((first,) * length, LENGTH, GREEDY) for first, length in ((7, 1), (8, 1), (9, 3))))
        bench.step(2)
        bench.engine.abort(bench.ids[:1])
        bench.step(4)
        bench.probe.preempt(bench.probe.running[-1])

    early, plain = run_both(drive)
    assert [sink.token_ids for sink in early.sinks[1:]] == [sink.token_ids for sink in plain.sinks[1:]]


def test_prefix_caching_ignores_discarded_tokens() -> None:
    early, plain = PagedBench(True), PagedBench(False)
    for bench in (early, plain):
        bench.submit(*tasks(max_tokens=13))
        bench.run_until_idle()
        bench.submit(
            *(
                Task((*ids, *sink.token_ids, 3), 8, GREEDY)
                for ids, sink in zip(PROMPTS, bench.sinks, strict=True)
            )
        )
        bench.run_until_idle()
    assert early.runner.early and early.outputs == plain.outputs


def test_nan_logits_fail_only_their_own_request() -> None:
    """The early step computes the sampled NAN token, which makes its row's logits NaN."""
    wild = Task((4, 5), LENGTH, replace(GREEDY, logit_bias={NAN: 100.0}))
    early, plain = run_both(lambda bench: bench.submit(*tasks(stop_token_ids=frozenset())[:3], wild))
    assert early.outputs == plain.outputs
    assert "not a number" in str(early.sinks[3].outputs[-1].error)


def test_nan_in_a_discarded_result_harms_no_pages_of_others() -> None:
    """The answer ends with the NAN token: the early step writes it to a page that other sequences get."""
    wild = Task(
        (4, 5, 6, 7, 8, 9), LENGTH, replace(GREEDY, logit_bias={NAN: 100.0}), stop_token_ids=frozenset({NAN})
    )

    def drive(bench: PagedBench) -> None:
        bench.submit(tasks()[0], wild, wild, wild)
        for _ in range(6):
            bench.step()
            bench.submit(*tasks(max_tokens=5, stop_token_ids=frozenset())[:2], wild)

    early, plain = run_both(drive, kv_capacity=48)
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]
    assert {sink.finish_reason for sink in early.sinks} == {"length", "stop"}


def test_a_sequence_at_its_last_token_or_in_a_full_row_gets_no_further_token() -> None:
    early, plain = run_both(
        lambda bench: bench.submit(*tasks(max_tokens=200, stop_token_ids=frozenset())), context=32
    )
    assert early.outputs == plain.outputs and {sink.finish_reason for sink in early.sinks} == {"length"}


def test_without_a_free_page_the_next_step_is_scheduled_before_it_is_launched() -> None:
    early, plain = run_both(
        lambda bench: bench.submit(*tasks(max_tokens=30, stop_token_ids=frozenset())), kv_capacity=36
    )
    assert [sink.token_ids for sink in early.sinks] == [sink.token_ids for sink in plain.sinks]
    assert early.engine.stats().preemptions


class EventLogSampler(Sampler):
    """Records when tokens are read, in the list in which the runner records its steps."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.events: list[str] = []

    def fault(self, batch: Batch, moved: bool) -> None:
        if not moved:
            self.events.append("begun early" if batch.device_token_ids is not None else "begun")

    def sample_async(self, logits: torch.Tensor, sequences: Any) -> PendingSample:
        ids, choices = super().sample_async(logits, sequences)
        return PendingSample(ids, lambda: (self.events.append("read"), choices())[1])


def test_a_step_runs_while_the_host_reads_the_previous_one_and_schedules() -> None:
    event_log = EventLogSampler()
    bench = PagedBench(True, event_log)
    bench.runner.on_forward = event_log.fault
    bench.submit(*tasks(stop_token_ids=frozenset(), max_tokens=4))
    bench.run_until_idle()
    assert event_log.events == [
        "begun",
        "begun early",
        "read",
        "begun early",
        "read",
        "begun early",
        "read",
        "read",
    ]


def test_a_step_that_cannot_be_launched_early_is_scheduled_as_usual() -> None:
    bench, plain = PagedBench(True), PagedBench(False)
    bench.may_fail = True

    def fault(batch: Batch, moved: bool) -> None:
        if batch.device_token_ids is not None:
            raise torch.OutOfMemoryError("only early")

    bench.runner.on_forward = fault
    for each in (bench, plain):
        each.submit(*tasks())
        each.run_until_idle()
    assert bench.outputs == plain.outputs and not bench.engine.stats().oom_steps
    assert bench.runner.early == 0 and bench.probe.num_failed_early_steps == 3


class UnreadableSampler(Sampler):
    """Samples tokens that cannot be read, once, in the fourth step."""

    def __init__(self) -> None:
        super().__init__(VOCAB)
        self.num_samples = 0

    def sample_async(self, logits: torch.Tensor, sequences: Any) -> PendingSample:
        self.num_samples += 1
        sample = super().sample_async(logits, sequences)
        return PendingSample(sample.token_ids, self.refuse) if self.num_samples == 4 else sample

    def refuse(self) -> list[SampledToken]:
        raise ValueError("cannot be read")


def test_a_early_step_whose_tokens_cannot_be_read_is_computed_again() -> None:
    bench, plain = PagedBench(True, UnreadableSampler()), PagedBench(False)
    bench.may_fail = True
    for each in (bench, plain):
        each.submit(*tasks())
        each.run_until_idle()
    assert bench.outputs == plain.outputs
    assert bench.runner.early and bench.probe.num_failed_early_steps == 1


def test_likely_drafts_take_precedence_over_early_steps() -> None:
    repeating = [Task((5, 6, 7) * 6, 40, GREEDY)]
    early, plain = run_both(lambda bench: bench.submit(*repeating), drafts=6)
    assert early.sinks[0].token_ids == plain.sinks[0].token_ids
    assert early.engine.stats().accepted_tokens > 10
