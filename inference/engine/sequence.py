"""The engine's data types: a Task, its Sequence and the StepOutput of one step.

Task and StepOutput hold plain values and cross threads. A Sequence belongs to the engine's thread: it stores
counters, and properties derive the rest from them.
"""

import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from copy import copy
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import torch

from inference.engine.banned_tokens import BannedTokens
from inference.errors import ServerError
from inference.sampling import Sampling

TopLogprobs = tuple[tuple[int, float], ...]


class PromptLogprob(NamedTuple):
    """Score of one prompt token: its logprob, the most probable tokens and the token's rank.

    rank: how many tokens are at least as probable. The first token of a prompt has no score.
    """

    logprob: float | None = None
    top_logprobs: TopLogprobs = ()
    rank: int = 0


class Matcher(Protocol):
    """A grammar automaton over token ids. One per sequence, used by one thread."""

    def token_bitmask(self) -> torch.Tensor | None:
        """The tokens that may come next, int32 (ceil(V / 32),): bit i of word w stands for token 32 w + i.

        None if every token may come next. The tensor is on the CPU and valid until the next call.
        """
        ...

    def advance(self, token_id: int) -> None:
        """Accept a token that `token_bitmask` allows."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One answer to compute.

    prompt_token_ids    the prompt; for an encoder-decoder model, the encoder's input
    max_tokens          most tokens to generate
    min_tokens          stop tokens are not sampled before this many tokens
    stop_token_ids      token ids that end the answer (the model's own and the request's)
    seed                seed of the answer's random stream; unused if sampling.greedy
    matcher             grammar that the answer must match; None: no grammar
    logprobs            number of alternatives to report with each token; None: no logprobs at all
    processed_logprobs  report logprobs after all processors and warpers instead of the model's own
    prompt_logprobs     number of alternatives to report with each prompt token; None: no prompt logprobs
    deadline            time.monotonic() after which the answer ends with reason "deadline"
    """

    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    min_tokens: int = 0
    stop_token_ids: frozenset[int] = frozenset()
    seed: int = 0
    matcher: Matcher | None = None
    logprobs: int | None = None
    processed_logprobs: bool = False
    prompt_logprobs: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step yields for one task: new tokens, the end of the answer, or both.

    logprobs           one entry per token, as in top_logprobs; empty if the task requests no logprobs
    num_cached_tokens  set in the first output: prompt tokens that prefix caching supplied
    queue_time_s       set in the first output: seconds from submission to the first step
    prompt_logprobs    set in the first output if prompt logprobs were requested: one score per prompt token
    finish_reason      "" while the answer goes on; else "stop" (the last id is a stop token), "length",
                       "deadline", "cancelled"
    error              set if the sequence failed; no output follows
    """

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[TopLogprobs, ...] = ()
    num_cached_tokens: int | None = None
    queue_time_s: float = 0.0
    prompt_logprobs: tuple[PromptLogprob, ...] = ()
    finish_reason: str = ""
    error: ServerError | None = None


class OutputSink(Protocol):
    """Receiver of a task's step outputs. `put` is called on the delivering thread and must not block."""

    def put(self, output: StepOutput) -> None: ...


class LogitsProcessor(NamedTuple):
    """A change of the logits that some requests ask for.

    requested  whether the sequence's request asks for it: the answer never changes
    apply      changes the logits (W, V) in place, in the rows of these sequences only
    applies    whether it changes the next token's logits; None: whenever it is requested
    """

    requested: Callable[["Sequence"], bool]
    apply: Callable[[torch.Tensor, Mapping[int, "Sequence"]], None]
    applies: Callable[["Sequence"], bool] | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """A task in the engine.

    token_ids            prompt (for an encoder-decoder model: the decoder's start ids), then answer
    encoder_ids          the encoder's input; empty for a decoder-only model
    num_computed_tokens  tokens whose keys and values are in the KV memory
    num_in_flight_tokens tokens behind them that launched steps compute; the results are not known yet
    num_cached_tokens    tokens that prefix caching supplied when the sequence first got its row
    num_pending_tokens   sampled tokens behind token_ids that the host does not know yet
    draft_token_ids      draft tokens, computed behind token_ids in this step
    max_len              its maximum length in tokens, prompt included
    row                  index of its row; -1 while the sequence waits
    started              whether its first output has been made
    queue_time_s         seconds from submission to the first step
    arrival_time         time.monotonic() at submission
    banned_tokens        tokens that the request bans or allows; None: it restricts none
    processors           the processors that the request asks for; None until the first sample
    warpers              the names of the warpers that the request asks for; None until the first sample
    pages                in paged memory: the pages of its tokens, in order
    num_hashed_pages     how many of these pages prefix caching has registered
    page_hashes          hashes of the full pages
    """

    id: int
    task: Task
    output_sink: OutputSink
    token_ids: list[int]
    encoder_ids: tuple[int, ...] = ()
    num_computed_tokens: int = 0
    row: int = -1
    started: bool = False
    num_cached_tokens: int = 0
    draft_token_ids: list[int] = field(default_factory=list)
    queue_time_s: float = 0.0
    pages: list[int] = field(default_factory=list)
    num_hashed_pages: int = 0
    page_hashes: list[bytes] = field(default_factory=list)
    num_prompt_tokens: int = field(init=False)
    max_len: int = field(init=False)
    greedy: bool = field(init=False)
    arrival_time: float = field(default_factory=time.monotonic)
    prompt_logprobs: list[PromptLogprob] = field(default_factory=list)
    num_in_flight_tokens: int = 0
    num_pending_tokens: int = 0
    banned_tokens: BannedTokens | None = field(init=False, default=None)
    processors: tuple[LogitsProcessor, ...] | None = field(init=False, default=None)
    warpers: tuple[str, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        sampling = self.task.sampling
        self.num_prompt_tokens = len(self.token_ids)
        self.max_len = self.num_prompt_tokens + self.task.max_tokens
        self.greedy = sampling.greedy or sampling.temperature == 0
        if sampling.bad_words_ids or sampling.allowed_token_ids is not None:
            self.banned_tokens = BannedTokens(sampling, self.task.stop_token_ids)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens to compute before the next token can be sampled; 1 while the sequence decodes."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def num_tokens(self) -> int:
        """Its tokens, the pending one included."""
        return len(self.token_ids) + self.num_pending_tokens

    @property
    def num_unscheduled_tokens(self) -> int:
        """Tokens that no step has computed or is computing, the pending one included."""
        num_scheduled_tokens = self.num_computed_tokens + self.num_in_flight_tokens
        return len(self.token_ids) + self.num_pending_tokens - num_scheduled_tokens

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> SequenceOf[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def may_reuse_prefix(self) -> bool:
        """Whether it may reuse KV memory of another sequence: not if each prompt token needs its logits."""
        return self.task.prompt_logprobs is None

    @property
    def lacks_prompt_logprobs(self) -> bool:
        """Whether tokens of its prompt are still to be scored."""
        return self.task.prompt_logprobs is not None and len(self.prompt_logprobs) < self.num_prompt_tokens

    @property
    def penalty_among_warpers(self) -> bool:
        """Whether the repetition penalty is applied at its place among the warpers instead of before them."""
        return not self.greedy and "repetition" in self.task.sampling.warper_order

    def finish_reason(self, context: int) -> Literal["stop", "length", ""]:
        """Why the answer ends behind its last token; empty if it goes on."""
        if self.num_output_tokens and self.token_ids[-1] in self.task.stop_token_ids:
            return "stop"
        return "length" if len(self.token_ids) >= min(self.max_len, context) else ""

    def may_gain_token(self, context: int) -> bool:
        """Whether a token may follow its last one, unless that is a stop token."""
        return self.num_tokens < min(self.max_len, context)

    def can_be_scheduled(self, context: int) -> bool:
        """Whether it has tokens to compute. A pending token that ends the answer is not computed."""
        ends = self.num_pending_tokens > 0 and not self.may_gain_token(context)
        return self.num_unscheduled_tokens > 0 and not ends

    def clear_placement(self) -> None:
        """Forget its place in the KV memory: all tokens must be computed again.

        What launched steps compute and sample for it is discarded.
        """
        self.row, self.num_computed_tokens = -1, 0
        self.num_in_flight_tokens = self.num_pending_tokens = 0
        self.pages, self.num_hashed_pages = [], 0

    def with_drafts(self, num_drafts: int) -> "Sequence":
        """A read-only copy whose first `num_drafts` draft tokens count as accepted."""
        if not num_drafts:
            return self
        drafted = copy(self)
        drafted.token_ids = self.token_ids + self.draft_token_ids[:num_drafts]
        return drafted
