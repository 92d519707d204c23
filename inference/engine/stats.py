"""What an engine has done and is doing, in numbers, for metrics and for the eye."""

from dataclasses import dataclass, field

REASONS = ("stop", "length", "deadline", "cancelled", "error")


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot. The first group says how things stand, the second counts since the start.

    room             tokens the memory can hold
    held             tokens that running sequences have in it; reach: that they may come to have
    touched          tokens in whose places in it something was ever written
    errands          other work under way, or waiting for its turn
    budget           tokens a step may compute; below its full value after a shortage of memory
    failing          sequences that failed in a row, with none that gained a token in between
    prompt_tokens    prompt tokens of sequences that began, cached_tokens of which were not computed
    step_seconds     seconds spent in steps
    drafted_tokens   tokens guessed ahead, accepted_tokens of which were right and became part of an answer
    ends             sequences that ended, by reason
    shortages        steps that found too little memory
    preemptions      sequences that lost their row and computed again
    """

    running: int
    waiting: int
    waiting_tokens: int
    room: int
    held: int
    reach: int
    touched: int
    errands: int
    budget: int
    failing: int
    steps: int
    step_seconds: float
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    ends: dict[str, int]
    shortages: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step was: the tokens it computed, the sequences it seated, whether it computed a prompt.

    seconds  from scheduling to the records
    failed   memory ran out, and nothing was computed
    """

    tokens: int
    seated: int
    prompts: bool
    seconds: float
    failed: bool


@dataclass(slots=True)
class Counts:
    """The engine's own running counts, of Stats' second group and `failing`."""

    failing: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    ends: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    shortages: int = 0
