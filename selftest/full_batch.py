"""A full batch, with every row in use: runs one, and watches a serving engine for its first one.

Also measures the engine's speed. run_full_batch and measure_speed drive an engine whose thread has not been
started. Knows no texts and no memory figures.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from threading import Thread

from inference.engine.engine import Engine
from inference.engine_stats import StepStats
from inference.types import GenerationRequest
from selftest.scenarios import GREEDY, submit_requests, without_prefix_cache

NUM_NEW_TOKENS = 3  # per answer; the first is computed with the prompt
MAX_CONCURRENT = 8  # answers in the speed measurement of concurrent answers
REPORT_AFTER_STEPS = 2000  # report once if there was no full batch, and keep watching

StepListener = Callable[[StepStats], None]


@dataclass
class FullBatch:
    """The maxima of a run.

    num_answers  answers running at the same time
    num_tokens   tokens in a step
    error        the message of an answer that failed, or empty
    """

    num_answers: int = 0
    num_tokens: int = 0
    error: str = ""


def run_full_batch(engine: Engine, token_ids: SequenceOf[int], num_tokens: int) -> FullBatch:
    """Run one request per row. The prompts consist of token_ids: num_tokens in all, and at least one each.

    Replaces the engine's step listener for the duration.
    """
    requests = make_requests(engine, token_ids, num_tokens)
    full_batch, previous_listener = FullBatch(), engine.core.on_step

    def record_step(step: StepStats) -> None:
        full_batch.num_answers = max(full_batch.num_answers, len(engine.core.scheduler.running))
        full_batch.num_tokens = max(full_batch.num_tokens, step.num_tokens)
        previous_listener(step)

    engine.set_step_listener(record_step)
    try:
        with without_prefix_cache(engine):
            results = submit_requests(engine, requests)
            engine.run_until_idle()
    finally:
        engine.set_step_listener(previous_listener)
    full_batch.error = next((result.error.message for result in results if result.error), "")
    return full_batch


def make_requests(engine: Engine, token_ids: SequenceOf[int], num_tokens: int) -> list[GenerationRequest]:
    """One request per row, from different positions of token_ids. Together they fit in the KV cache."""
    kv_manager = engine.core.kv_cache_manager
    max_length = (
        min(kv_manager.context, kv_manager.kv_capacity // kv_manager.max_sequences) - NUM_NEW_TOKENS - 1
    )
    length = max(1, min(-(-num_tokens // kv_manager.max_sequences), max_length))
    return [
        GenerationRequest(
            tuple(token_ids[(row + place) % len(token_ids)] for place in range(length)),
            GREEDY,
            max_tokens=NUM_NEW_TOKENS,
        )
        for row in range(kv_manager.max_sequences)
    ]


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second: of a prompt, of a single answer, and of num_concurrent answers together."""

    prompt: float
    single: float
    concurrent: float
    num_concurrent: int


def measure_speed(engine: Engine, prompts: SequenceOf[GenerationRequest], num_new_tokens: int) -> Speed:
    """The speed for the longest prompt, and for answers of num_new_tokens to the shortest prompt."""
    longest, shortest = (choose(prompts, key=lambda request: len(request.prompt)) for choose in (max, min))
    num_concurrent = min(MAX_CONCURRENT, engine.core.kv_cache_manager.max_sequences)
    answer_task = replace(shortest, max_tokens=num_new_tokens + 1, logprobs=None)
    start = time.perf_counter()
    time_decoding(engine, [replace(longest, max_tokens=1, logprobs=None)])
    prompt_s = time.perf_counter() - start
    return Speed(
        prompt=len(longest.prompt_token_ids) / prompt_s,
        single=num_new_tokens / time_decoding(engine, [answer_task]),
        concurrent=num_concurrent * num_new_tokens / time_decoding(engine, [answer_task] * num_concurrent),
        num_concurrent=num_concurrent,
    )


def time_decoding(engine: Engine, requests: SequenceOf[GenerationRequest]) -> float:
    """Seconds of decoding after every answer has its first token."""
    with without_prefix_cache(engine):
        results = submit_requests(engine, requests)
        while not all(result.token_ids for result in results):
            engine.step()
        start = time.perf_counter()
        engine.run_until_idle()
        return time.perf_counter() - start


class FullBatchWatcher:
    """A step listener of the engine. It forwards each step to next_listener, and restores it at the end.

    on_report  called with True after the first full batch; called once with False after REPORT_AFTER_STEPS
               without a full batch
    """

    def __init__(
        self, engine: Engine, next_listener: StepListener, on_report: Callable[[bool], None]
    ) -> None:
        self.engine, self.next_listener, self.on_report = engine, next_listener, on_report
        self.has_all_rows = False  # whether all rows have been in use at once
        self.num_steps = 0

    def __call__(self, step: StepStats) -> None:
        """Runs on the engine's thread; `on_report` runs on a thread of its own."""
        self.next_listener(step)
        self.num_steps += 1
        core = self.engine.core
        is_full = len(core.scheduler.running) >= core.kv_cache_manager.max_sequences
        was_full, self.has_all_rows = self.has_all_rows, self.has_all_rows or is_full
        if was_full and not is_full:
            self.engine.set_step_listener(self.next_listener)
            self.report()
        elif self.num_steps == REPORT_AFTER_STEPS and not self.has_all_rows:
            self.report()

    def report(self) -> None:
        Thread(target=self.on_report, args=(self.has_all_rows,), name="memory-report", daemon=True).start()
