"""Counters and snapshots of an engine, for metrics and logs."""

from dataclasses import dataclass, field

from inference.errors import ServerError

REASONS = ("stop", "length", "deadline", "cancelled", "error")


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot: the current state first, then counts since the start.

    running               sequences with a row
    waiting               sequences without a row
    running_adapters      names of the adapters of running sequences, in order
    waiting_adapters      those of waiting sequences
    waiting_tokens        prompt tokens of sequences that have not started
    kv_capacity           tokens the KV memory can hold
    kv_used               tokens of KV memory that running sequences use; a shared page counts once
    kv_reserved           tokens that running sequences may grow to
    kv_touched            tokens of KV memory that were written at least once
    background_tasks      background tasks running or waiting
    token_budget          tokens a step may compute; reduced after running out of memory
    consecutive_failures  sequences that failed in a row, with no token generated in between
    steps                 steps, including those that ran out of memory
    step_seconds          seconds spent in steps
    prompt_tokens         prompt tokens of sequences that have started
    cached_tokens         prompt tokens that prefix caching supplied
    generated_tokens      tokens of answers
    drafts                runs of draft tokens computed, each behind the last token of one sequence
    drafted_tokens        draft tokens computed
    accepted_tokens       draft tokens that became part of an answer
    finished_by_reason    sequences that ended, by reason
    oom_steps             steps that ran out of memory
    preemptions           times that a sequence lost its row and had to be computed again
    """

    running: int
    waiting: int
    running_adapters: tuple[str, ...]
    waiting_adapters: tuple[str, ...]
    waiting_tokens: int
    kv_capacity: int
    kv_used: int
    kv_reserved: int
    kv_touched: int
    background_tasks: int
    token_budget: int
    consecutive_failures: int
    steps: int
    step_seconds: float
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    drafts: int
    drafted_tokens: int
    accepted_tokens: int
    finished_by_reason: dict[str, int]
    oom_steps: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The KV memory of an engine, as it was allocated.

    page_size            tokens of a page
    num_pages            pages that the memory holds
    dtype                of keys and values
    prefix_caching       whether sequences may share prefixes
    gpu_memory_fraction  the share of each GPU's memory that the process may use; None: it uses no GPU
    """

    page_size: int
    num_pages: int
    dtype: str
    prefix_caching: bool
    gpu_memory_fraction: float | None


@dataclass(frozen=True, slots=True)
class StepStats:
    """One step.

    num_tokens            tokens computed, drafts included
    num_processed_tokens  tokens of the prompts that it completed, with those from the prefix cache, and
                          tokens that it added to answers
    num_newly_scheduled   sequences that got a row in this step
    has_prompt            whether the step computed the prompt of a sequence without output so far
    seconds               time from scheduling to the queued outputs
    failed                memory ran out and nothing was computed
    """

    num_tokens: int
    num_processed_tokens: int
    num_newly_scheduled: int
    has_prompt: bool
    seconds: float
    failed: bool


@dataclass(slots=True)
class EngineCounters:
    """The engine's counts since its start; Stats describes the fields."""

    consecutive_failures: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    drafts: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    finished_by_reason: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    oom_steps: int = 0

    def count_output(self, num_tokens: int, finish_reason: str, error: ServerError | None) -> None:
        """Count what an answer gets in a step: tokens, its finish reason (empty: none yet), or its error."""
        self.generated_tokens += num_tokens
        if num_tokens:
            self.consecutive_failures = 0
        if error is not None:
            self.finished_by_reason["error"] += 1
            self.consecutive_failures += error.status >= 500
        elif finish_reason:
            self.finished_by_reason[finish_reason] += 1
