"""What a step yields for a sequence, and who receives it. Plain values, which cross threads."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from inference.errors import ServerError
from inference.prompt_scoring import PlaceScores

TopLogprobs = tuple[tuple[int, float], ...]


class PromptLogprob(NamedTuple):
    """Score of one prompt token: its logprob, the most probable tokens and the token's rank.

    rank: how many tokens are at least as probable. place: other tokens, if the request scores some. The first
    token of a prompt has no score.
    """

    logprob: float | None = None
    top_logprobs: TopLogprobs = ()
    rank: int = 0
    place: PlaceScores | None = None


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step yields for one sequence: new tokens, the end of the answer, or both.

    logprobs           one entry per token, as in top_logprobs; empty if the request asks for no logprobs.
                       None for a token that the request had already
    num_cached_tokens  set in the first output: prompt tokens that prefix caching supplied
    queue_time_s       set in the first output: seconds from submission to the first step
    prompt_logprobs    set in the first output if prompt logprobs were requested: one score per prompt token
    finish_reason      "" while the answer goes on; else "stop" (the last id is a stop token), "length",
                       "deadline", "cancelled"
    embedding          set in the last output of a sequence that is pooled
    embedding_norm     length of the embedding before it was scaled to length 1
    error              set if the sequence failed; no output follows
    """

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top_logprobs: tuple[TopLogprobs, ...] = ()
    num_cached_tokens: int | None = None
    queue_time_s: float = 0.0
    prompt_logprobs: tuple[PromptLogprob, ...] = ()
    finish_reason: str = ""
    embedding: tuple[float, ...] = ()
    embedding_norm: float = 0.0
    error: ServerError | None = None


class OutputSink(Protocol):
    """Receiver of a sequence's step outputs. `put` is called on the delivering thread and must not block."""

    def put(self, output: StepOutput) -> None: ...
