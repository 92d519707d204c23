"""One sequence's life, in counters. Everything else about it is derived from them.

A Task is what is asked of the engine, a Record what one step yields for it: both are plain integers and
floats, made and read by other threads. A Sequence is the engine's own.
"""

import time
from collections.abc import Sequence as Ids
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch

from inference.engine.bans import Bans
from inference.errors import ServerError
from inference.sampling import Sampling

Tops = tuple[tuple[int, float], ...]


class Score(NamedTuple):
    """How likely a prompt token was: its logprob, the most probable ones, and how many were at least as
    likely. The first token has none of these."""

    logprob: float | None = None
    tops: Tops = ()
    rank: int = 0


class Matcher(Protocol):
    """Which tokens may come next, by an automaton over token ids. One per sequence, used by one thread."""

    def allowed(self) -> torch.Tensor | None:
        """Bitmask over the vocabulary, int32 (ceil(V / 32),): bit i of word w is set where token 32 w + i may
        come next; None where every token may. On the CPU, valid until the next call."""
        ...

    def advance(self, token: int) -> None:
        """Take a token that `allowed` permitted."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One answer to compute.

    ids             the prompt; for an encoder-decoder model, the encoder's input
    ends            token ids that end the answer (the model's own and the request's)
    seed            of the answer's random stream; unused when sampling.greedy
    logprobs        alternatives to report with each token; None: none, not even the chosen token's
    warped          logprobs are of the distribution behind all edits and warpers, not of the model's own
    prompt_logprobs likewise for the prompt
    deadline        time.monotonic() after which it ends with reason "deadline"
    """

    ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    min_tokens: int = 0
    ends: frozenset[int] = frozenset()
    seed: int = 0
    matcher: Matcher | None = None
    logprobs: int | None = None
    warped: bool = False
    prompt_logprobs: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What one step yields for one task: the tokens it gained, or its end, or both.

    cached   set on the first record: prompt tokens that did not have to be computed
    waited   on the first record: seconds from submission to its row
    prompt   on the first record when prompt logprobs were asked: a score per prompt token
    reason   "" while it goes on; else "stop" (the last id is one of its ends), "length", "deadline",
             "cancelled"
    error    set where the sequence failed; nothing follows
    """

    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    tops: tuple[Tops, ...] = ()
    cached: int | None = None
    waited: float = 0.0
    prompt: tuple[Score, ...] = ()
    reason: str = ""
    error: ServerError | None = None


class Outlet(Protocol):
    """Where a task's records go. `put` is called on the delivering thread and must not block."""

    def put(self, record: Record) -> None: ...


@dataclass(slots=True, eq=False)
class Sequence:
    """A task in the engine.

    tokens  all its token ids: the prompt (for an encoder-decoder, the decoder's start), then the answer
    cached  how many of them are in the row's memory
    coming  tokens behind these that are chosen, and that the host does not know yet
    drafts  guesses at what follows its tokens, computed behind them in this step
    row     its row in the memory, -1 while it waits
    source  the encoder's input, empty for a decoder-only model
    bans    what its request rules out; None: nothing
    pages   where the memory is in pages: those its tokens stand in, in order; `filed` of them can be found by
            others, by the names in `chain`
    """

    id: int
    task: Task
    outlet: Outlet
    tokens: list[int]
    source: tuple[int, ...] = ()
    cached: int = 0
    row: int = -1
    started: bool = False
    reused: int = 0
    drafts: list[int] = field(default_factory=list)
    waited: float = 0.0
    pages: list[int] = field(default_factory=list)
    filed: int = 0
    chain: list[bytes] = field(default_factory=list)
    prompt: int = field(init=False)
    arrived: float = field(default_factory=time.monotonic)
    prompt_scores: list[Score] = field(default_factory=list)
    coming: int = 0
    bans: Bans | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)
        sampling = self.task.sampling
        if sampling.banned or sampling.allowed is not None:
            self.bans = Bans(sampling, self.task.ends)

    @property
    def todo(self) -> int:
        """Tokens to compute before the next one can be sampled; 1 while it decodes."""
        return len(self.tokens) - self.cached

    @property
    def generated(self) -> int:
        return len(self.tokens) + self.coming - self.prompt

    @property
    def answer(self) -> Ids[int]:
        return self.tokens[self.prompt :]

    @property
    def greedy(self) -> bool:
        return self.task.sampling.greedy or self.task.sampling.temperature == 0

    @property
    def late(self) -> bool:
        """Whether its repetition penalty has a place among its warpers, instead of before them."""
        return not self.greedy and "repetition" in self.task.sampling.order

    @property
    def limit(self) -> int:
        """Tokens it may come to hold, prompt included."""
        return self.prompt + self.task.max_tokens

    def ahead(self, count: int) -> "Sequence":
        """What it is if the first `count` of its drafts are right; only to be read."""
        if not count:
            return self
        later = copy(self)
        later.tokens = self.tokens + self.drafts[:count]
        return later
