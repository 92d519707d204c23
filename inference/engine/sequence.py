"""A Sequence: one answer in the engine, and what it asks of the sampler.

It belongs to the engine's thread once it is submitted: it stores counters, and properties derive the rest
from them.
"""

import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from copy import copy
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import torch

from inference.engine.banned_tokens import BannedTokens
from inference.engine.pooled_sum import PooledSum
from inference.engine.step_output import OutputSink, PromptLogprob
from inference.model.batch import Pooling
from inference.sampling import REPETITION_PENALTY
from inference.types import GenerationRequest

PRIORITIES = GENERATING, POOLING, BACKGROUND = range(3)  # the most urgent first


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

    @property
    def failure(self) -> str:
        """Why `token_bitmask` allows no token; empty if it allows one."""
        ...


class LogitsProcessor(NamedTuple):
    """A change of the logits that some requests ask for.

    apply      changes the logits (W, V) in place, in the rows of these sequences only
    fields     fields of Sampling: a request asks for it if one of them differs from its default
    condition  what must also hold for the sequence; it never changes. None: nothing
    applies    whether it changes the next token's logits; None: whenever it is requested
    """

    apply: Callable[[torch.Tensor, Mapping[int, "Sequence"]], None]
    fields: tuple[str, ...] = ()
    condition: Callable[["Sequence"], bool] | None = None
    applies: Callable[["Sequence"], bool] | None = None


class SamplingPlan(NamedTuple):
    """What a request asks of the sampler: the answer never changes.

    processors    the logits processors to apply, in order
    has_kernel    whether its warpers are those that native code and the Triton kernels apply
    keeps_tokens  whether no warper excludes a token: at most the temperature changes the distribution
    """

    processors: tuple[LogitsProcessor, ...]
    has_kernel: bool
    keeps_tokens: bool


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer in the engine.

    request              what to compute: its prompt is token ids (for an encoder-decoder model the encoder's
                         input), max_tokens is set, stop_token_ids include the model's end tokens
    matcher              grammar that the answer must match; None: no grammar
    submission           of those that end one request together: its group, or the id of the first of them
    priority             one of PRIORITIES: a sequence delays none of a more urgent one
    pooling              which of its hidden states are summed to an embedding: then no token is sampled.
                         None: it is not pooled, but answered
    pooled_sum           the sum of the hidden states computed so far, if it is pooled
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
    deadline             time.monotonic() after which the answer ends with reason "deadline"
    cache_key            prefix caching shares KV memory between sequences with the same key only
    seed                 seed of the answer's random stream; unused if it is greedy
    banned_tokens        tokens that the request bans or allows; None: it restricts none
    sampling_plan        what the request asks of the sampler; None until the first sample
    pages                in paged memory: the pages of its tokens, in order
    window_pages         for each window group of the runner: as pages, with the null page behind the window
    max_pages            pages of its maximum length
    num_hashed_pages     how many of these pages prefix caching has registered
    page_hashes          hashes of the full pages
    """

    id: int
    request: GenerationRequest
    output_sink: OutputSink
    token_ids: list[int]
    encoder_ids: tuple[int, ...] = ()
    matcher: Matcher | None = None
    num_computed_tokens: int = 0
    row: int = -1
    started: bool = False
    num_cached_tokens: int = 0
    draft_token_ids: list[int] = field(default_factory=list)
    queue_time_s: float = 0.0
    pages: list[int] = field(default_factory=list)
    window_pages: list[list[int]] = field(default_factory=list)
    max_pages: int = 0
    num_hashed_pages: int = 0
    page_hashes: list[bytes] = field(default_factory=list)
    submission: int = field(init=False)
    num_prompt_tokens: int = field(init=False)
    max_len: int = field(init=False)
    greedy: bool = field(init=False)
    seed: int = field(init=False)
    stop_token_ids: frozenset[int] = field(init=False)
    cache_key: tuple[str, ...] = field(init=False)
    arrival_time: float = field(default_factory=time.monotonic)
    deadline: float | None = field(init=False, default=None)
    prompt_logprobs: list[PromptLogprob] = field(default_factory=list)
    num_in_flight_tokens: int = 0
    num_pending_tokens: int = 0
    priority: int = GENERATING
    pooling: Pooling | None = None
    pooled_sum: PooledSum | None = None
    banned_tokens: BannedTokens | None = field(init=False, default=None)
    sampling_plan: SamplingPlan | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        request, sampling = self.request, self.request.sampling
        assert request.max_tokens is not None, "the request is resolved"
        self.submission = self.id
        self.num_prompt_tokens = len(self.token_ids)
        self.max_len = self.num_prompt_tokens + request.max_tokens
        self.token_ids += request.output_token_ids
        if self.matcher is not None:
            for token_id in request.output_token_ids:
                self.matcher.advance(token_id)
        self.stop_token_ids = frozenset(request.stop_token_ids)
        self.greedy = sampling.greedy or sampling.temperature == 0
        self.seed = sampling.seed or 0
        self.cache_key = (str(request.adapter_number or ""), request.cache_salt)
        if request.deadline is not None:
            self.deadline = time.monotonic() + request.deadline
        if sampling.bad_words_ids or sampling.allowed_token_ids is not None:
            self.banned_tokens = BannedTokens(sampling, self.stop_token_ids)

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
        """Whether it may reuse KV memory of another sequence: not if each token must be computed."""
        return self.request.prompt_logprobs is None and not self.pooling

    @property
    def lacks_prompt_logprobs(self) -> bool:
        """Whether tokens of its prompt are still to be scored."""
        return self.request.prompt_logprobs is not None and len(self.prompt_logprobs) < self.num_prompt_tokens

    @property
    def penalties_come_first(self) -> bool:
        """Whether the repetition penalties are applied before the warpers, not at a place among them."""
        return self.greedy or REPETITION_PENALTY not in self.request.sampling.warper_order

    def finish_reason(self, context: int) -> Literal["stop", "length", ""]:
        """Why the answer ends behind its last token; empty if it goes on."""
        num_tokens = len(self.token_ids)
        if self.pooling:
            return "stop"
        if num_tokens > self.num_prompt_tokens and self.token_ids[-1] in self.stop_token_ids:
            return "stop"
        return "length" if num_tokens >= min(self.max_len, context) else ""

    def may_gain_token(self, context: int) -> bool:
        """Whether a token may follow its last one, unless that is a stop token."""
        return len(self.token_ids) + self.num_pending_tokens < min(self.max_len, context)

    def num_schedulable_tokens(self, context: int) -> int:
        """Tokens that the next step may compute. A pending token that ends the answer is not computed."""
        num_tokens = len(self.token_ids) + self.num_pending_tokens
        if self.num_pending_tokens and num_tokens >= min(self.max_len, context):
            return 0
        return num_tokens - self.num_computed_tokens - self.num_in_flight_tokens

    @property
    def embedding(self) -> tuple[tuple[float, ...], float]:
        """The mean of its pooled hidden states, scaled to length 1, and its length before that.

        Empty before all are computed.
        """
        if self.pooled_sum is None or self.num_uncomputed_tokens:
            return (), 0.0
        num_tokens = 1 if self.pooling == "last" else len(self.encoder_ids or self.token_ids)
        return tuple(self.pooled_sum.unit), self.pooled_sum.length / num_tokens

    def clear_placement(self) -> None:
        """Forget its place in the KV memory: all tokens must be computed again.

        What launched steps compute and sample for it is discarded.
        """
        self.row, self.num_computed_tokens = -1, 0
        self.num_in_flight_tokens = self.num_pending_tokens = 0
        self.pages, self.window_pages, self.num_hashed_pages = [], [], 0
        self.pooled_sum = None

    def with_drafts(self, num_drafts: int) -> "Sequence":
        """A read-only copy whose first `num_drafts` draft tokens count as accepted."""
        if not num_drafts:
            return self
        drafted = copy(self)
        drafted.token_ids = self.token_ids + self.draft_token_ids[:num_drafts]
        return drafted
