"""The scenarios of a selftest: the same prompts computed alone, batched, preempted, with draft tokens.

Drives an engine whose thread has not been started. Collects the answers; compare.py compares them.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from inference.engine.engine import Engine
from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import can_draft, max_drafts_of
from inference.engine.step_output import StepOutput, TopLogprobs
from inference.errors import ServerError
from inference.sampling import Sampling
from inference.types import GenerationRequest

STEPS_BETWEEN = 3  # steps between preemptions, or between arrivals
NUM_DRAFTS = 5  # draft tokens per step
NUM_TOP_LOGPROBS = 5  # per token, to distinguish ties from faults
GREEDY = Sampling(greedy=True)
QUESTIONS = ("What is the capital of France?", "Count from one to ten.", "Tell me about ships.")
SHORT_PROMPTS = ("Once upon a time", "1, 2, 3, 1, 2, 3, 1, 2, 3,", "The")


@dataclass
class CollectedAnswer:
    """An OutputSink that stores an answer's outputs."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[TopLogprobs] = field(default_factory=list)
    num_cached_tokens: int = 0
    error: ServerError | None = None

    def put(self, output: StepOutput) -> None:
        self.token_ids += output.token_ids
        self.logprobs += [each for each in output.logprobs if each is not None]
        self.top_logprobs += output.top_logprobs
        self.num_cached_tokens += output.num_cached_tokens or 0
        self.error = output.error or self.error


Requests = SequenceOf[GenerationRequest]
Scenario = Callable[[Engine, Requests], list[CollectedAnswer]]


def run_alone(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    """One request after the other, without the prefix cache."""
    results = []
    with without_prefix_cache(engine):
        for request in requests:
            results += submit_requests(engine, [request])
            engine.run_until_idle()
    return results


def run_batched(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    """All requests in one batch."""
    results = submit_requests(engine, requests)
    engine.run_until_idle()
    return results


def with_cancelled_neighbours(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    """Requests arrive one by one, each with a neighbour that is cancelled before the next arrival."""
    results = []
    for request in requests:
        neighbour = engine.submit(
            [GenerationRequest(request.prompt_token_ids[::-1], max_tokens=request.max_tokens)],
            [CollectedAnswer()],
        )
        results += submit_requests(engine, [request])
        for _ in range(STEPS_BETWEEN):
            engine.step()
        engine.abort(neighbour)
    engine.run_until_idle()
    return results


def run_preempted(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    """All requests in one batch; each is preempted once during its answer and recomputed."""
    results = [CollectedAnswer() for _ in requests]
    remaining = set(engine.submit(requests, results))
    num_steps = 0
    while engine.step():
        num_steps += 1
        preemptible = [
            s for s in engine.core.scheduler.running if s.id in remaining and s.num_output_tokens > 1
        ]
        if preemptible and num_steps % STEPS_BETWEEN == 0:
            remaining.remove(preemptible[0].id)
            engine.core.scheduler.preempt(preemptible[0])
    return results


def run_again(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    """A second run, one request after the other, with the prefix cache of the first."""
    run_batched(engine, requests)
    results = []
    for request in requests:
        results += submit_requests(engine, [request])
        engine.run_until_idle()
    return results


def run_with_drafts(
    expected: SequenceOf[CollectedAnswer], engine: Engine, requests: Requests
) -> list[CollectedAnswer]:
    """All requests in one batch, with draft tokens, most of them correct."""
    pipeline, proposer = engine.core.pipeline, engine.core.pipeline.proposer
    pipeline.proposer = KnownAnswerProposer(
        engine.core.kv_cache_manager,
        {
            request.prompt_token_ids: result.token_ids
            for request, result in zip(requests, expected, strict=True)
        },
    )
    try:
        return run_batched(engine, requests)
    finally:
        pipeline.proposer = proposer


class KnownAnswerProposer:
    """A Proposer of the known answers of known prompts; every third time the last draft token is wrong."""

    def __init__(self, kv_manager: KVCacheManager, answer_ids: dict[SequenceOf[int], list[int]]) -> None:
        self.kv_cache_manager = kv_manager
        self.answer_ids = answer_ids

    def propose(self, scheduler_output: SchedulerOutput, step_budget: int) -> int:
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = self.draft_from_answer(sequence) if can_draft(sequence) else []
        return sum(len(sequence.draft_token_ids) for sequence, _ in scheduler_output)

    def is_worthwhile(self, scheduler_output: SchedulerOutput, step_budget: int) -> bool:
        return any(can_draft(sequence) for sequence, _ in scheduler_output)

    def discard(self) -> None:
        """It remembers no sequence."""

    def draft_from_answer(self, sequence: Sequence) -> list[int]:
        num_generated = sequence.num_output_tokens
        draft_token_ids = self.answer_ids[sequence.request.prompt_token_ids][
            num_generated : num_generated + min(NUM_DRAFTS, max_drafts_of(sequence, self.kv_cache_manager))
        ]
        return (
            draft_token_ids
            if num_generated % 3 or not draft_token_ids
            else [*draft_token_ids[:-1], draft_token_ids[-1] ^ 1]
        )


@contextmanager
def without_prefix_cache(engine: Engine) -> Iterator[None]:
    """Disable the prefix cache meanwhile."""
    kv_manager, prefix_caching = engine.core.kv_cache_manager, engine.core.kv_cache_manager.prefix_caching
    kv_manager.prefix_caching = False
    try:
        yield
    finally:
        kv_manager.prefix_caching = prefix_caching


def submit_requests(engine: Engine, requests: Requests) -> list[CollectedAnswer]:
    results = [CollectedAnswer() for _ in requests]
    engine.submit(requests, results)
    return results


def make_scenarios(engine: Engine, expected: SequenceOf[CollectedAnswer]) -> Mapping[str, Scenario]:
    """The scenarios that must all give the `expected` answers; drafts only if the engine uses them."""
    scenarios: dict[str, Scenario] = {
        "batched": run_batched,
        "neighbours": with_cancelled_neighbours,
        "preempted": run_preempted,
        "prefix": run_again,
    }
    scheduler = engine.core.scheduler
    supports_drafts = not (scheduler.whole_prompts or scheduler.chunking.chunk_size)
    return scenarios | ({"drafts": partial(run_with_drafts, expected)} if supports_drafts else {})


def make_prompts(tokenizer: Any, prefix_length: int, max_length: int) -> list[tuple[int, ...]]:
    """Three prompts with a common prefix of about prefix_length tokens and three short ones."""
    prefix = tokenize(tokenizer, make_story(tokenizer, prefix_length))
    suffixes = [tokenize(tokenizer, question) for question in QUESTIONS]
    long_prompts = [(prefix[: max(1, max_length - len(suffix))] + suffix)[:max_length] for suffix in suffixes]
    return [
        tuple(prompt)
        for prompt in (*long_prompts, *(tokenize(tokenizer, text)[:max_length] for text in SHORT_PROMPTS))
    ]


def make_story(tokenizer: Any, num_tokens: int) -> str:
    """A text of at least num_tokens tokens without repetition."""
    text = ""
    for day in count(1):
        text += f"On day {day} the harbour saw {day * 7 % 13 + 2} ships; {day * 5 % 11} of them left again. "
        if len(tokenize(tokenizer, text)) >= num_tokens:
            return text
    raise AssertionError("days do not end")


def tokenize(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text).input_ids)


def make_request(prompt: tuple[int, ...], max_tokens: int) -> GenerationRequest:
    """A greedy request of exactly max_tokens tokens."""
    return GenerationRequest(prompt, GREEDY, max_tokens=max_tokens, logprobs=NUM_TOP_LOGPROBS)
