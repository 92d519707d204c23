"""The events that answer a request: tokens of its answers, or vectors of its inputs. Plain values only."""

from dataclasses import dataclass
from typing import Literal

from inference.prompt_scoring import PlaceScores

FinishReason = Literal["stop", "length", "deadline", "cancelled", "filtered"]


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """A candidate for a token, with the natural logarithm of its probability."""

    id: int
    text: str
    logprob: float
    is_special: bool = False


@dataclass(frozen=True, slots=True)
class PromptToken:
    """A token of the prompt with its logprob. The first token has none: nothing precedes it.

    rank   number of tokens that were at least as probable; the most probable token has rank 1
    place  other tokens at its place, if the request set prompt_scoring
    """

    id: int
    text: str
    logprob: float | None
    rank: int = 0
    top_logprobs: tuple[TopLogprob, ...] = ()
    place: PlaceScores | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The answer `index` starts: its prompt has been computed.

    prompt_tokens    number of prompt tokens; None: unknown
    cached_tokens    number of prompt tokens that prefix caching supplied
    prompt_logprobs  one entry for each prompt token; empty unless the request set prompt_logprobs
    queue_time_s     seconds from submission to the first step
    member           the display name of the server that answers, if the model runs on other servers
    model            the name of the model that answers in place of the requested one; empty: that one answers
    """

    index: int
    prompt_tokens: int | None
    cached_tokens: int
    prompt_token_ids: tuple[int, ...] = ()
    prompt_logprobs: tuple[PromptToken, ...] = ()
    queue_time_s: float = 0.0
    member: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    text       what the token adds to the answer. Empty for an incomplete character, a hidden special token,
               a part of a tool call, and text held back as the possible start of a stop string
    spelling   the token's own text; the name of a special token
    reasoning  what the token adds to the reasoning, if the request has separate_reasoning
    """

    index: int
    id: int  # -1: unknown
    text: str
    logprob: float | None = None
    top_logprobs: tuple[TopLogprob, ...] = ()
    is_special: bool = False
    spelling: str = ""
    reasoning: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether the token adds nothing that the answer shows."""
        return not (self.text or self.reasoning)


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call in the answer `index`.

    call_index  0, 1, … within the answer; the pieces of one call share call_index, id and name
    arguments   the next piece of the call's JSON text; all pieces together are a JSON object
    done        this is the call's last piece
    """

    index: int
    call_index: int
    id: str
    name: str
    arguments: str
    done: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer `index` is complete.

    text                  the end of the answer's text, held back until now
    stop                  the stop string or stop token id that ended the answer; None for an end token of the
                          model and for every other finish_reason
    num_tokens            generated tokens, special tokens included
    seed                  the seed in use, a random one if the request had none; None for greedy answers
    reasoning             the end of the reasoning, held back until now
    num_reasoning_tokens  generated tokens of the reasoning, without its markers
    """

    index: int
    finish_reason: FinishReason
    text: str = ""
    stop: str | int | None = None
    num_tokens: int = 0
    seed: int | None = None
    prompt_tokens: int | None = None  # corrects that of Started; None: that is right
    cached_tokens: int | None = None  # likewise
    reasoning: str = ""
    num_reasoning_tokens: int = 0


Event = Started | Token | CallDelta | Finished


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vector of one input, scaled to length 1. norm: its length before; num_tokens: of the input."""

    vector: tuple[float, ...]
    norm: float
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(Finished):
    """The vector of the input `index`. An embedding stream has one for each input, in any order."""

    embedding: Embedding
