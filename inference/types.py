"""The vocabulary of the server: what is asked, what comes back, what can go wrong.

Every floor speaks it. Plain values only: no torch, no HTTP, no tokenizer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "deadline", "cancelled"]
ConstraintKind = Literal["json_schema", "regex", "choice", "grammar", "json"]
ToolFormat = Literal["json", "function_tag", "python_list"]


# What is asked -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model made; `arguments` is JSON text, an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Every default is neutral: it changes no logit."""

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the text must match. `spec` is a schema (mapping), a pattern, a list of choices or a grammar."""

    kind: ConstraintKind
    spec: Any = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and everything that shapes its answers.

    prompt          text, token ids, or a conversation for the model's chat template
    max_tokens      None: as many as the context holds
    stop            strings that end the text and are not part of it
    stop_tokens     ids that end the text, besides the model's own
    logprobs        alternatives to report with each token; None: no logprobs, 0: the chosen token's alone
    prompt_logprobs the same, for the prompt's own tokens
    deadline        seconds from submission after which the answer ends with reason "deadline"
    tool_choice     "auto", "none", "required", or the name of one tool
    tool_format     how tools are described to the model; None: as its chat template does
    """

    prompt: str | Sequence[int] | Sequence[Message]
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[int, ...] = ()
    ignore_eos: bool = False
    constraint: Constraint | None = None
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    tool_format: ToolFormat | None = None
    deadline: float | None = None
    id: str = ""


# What comes back ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have stood here, and the natural logarithm of its probability."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Started:
    """The answer `index` begins; its prompt has been computed.

    prompt is empty unless prompt_logprobs was asked: then one entry per prompt token, the first of which has
    logprob None; each entry is (id, text, logprob, alternatives).
    """

    index: int
    prompt_tokens: int
    cached_tokens: int
    prompt: tuple[tuple[int, str, float | None, tuple[Alternative, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token. `text` is what it adds to the answer: it may be empty (half a character, text held
    back because it may belong to a stop string, a special token, part of a tool call)."""

    index: int
    id: int
    text: str
    logprob: float | None = None
    top: tuple[Alternative, ...] = ()
    special: bool = False


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call. Pieces of one call share `number` (0, 1, …), `id` and `name`; `arguments` is
    the next piece of its JSON text. `done` marks the last piece: joined, they are a JSON object."""

    index: int
    number: int
    id: str
    name: str
    arguments: str
    done: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer `index` is complete.

    text    what was still held back and belongs to the answer
    stop    the stop string or stop token id that ended it; None for the model's own end or another reason
    tokens  how many were generated, special ones included
    seed    the seed in force, drawn if none was given; None for greedy answers
    """

    index: int
    reason: FinishReason
    text: str = ""
    stop: str | int | None = None
    tokens: int = 0
    seed: int | None = None


Event = Started | Token | CallDelta | Finished


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a backend serves. `context` counts prompt and answer together; `chat` is empty where the model's
    own chat template is used, else it says what stands in for it."""

    id: str
    context: int
    vocab: int
    created: int
    chat: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


# What can go wrong -------------------------------------------------------------------------------------


class ServerError(Exception):
    """Something a user is told. `status` is the HTTP status, unless a dialect's contract says otherwise."""

    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(ServerError):
    """A field breaks a rule: BadRequest("top_p", "must be in (0, 1]", 1.5)."""

    status = 400

    def __init__(self, field: str, rule: str, got: Any = ...) -> None:
        given = "" if got is ... else f", got {short(got)}"
        super().__init__(f"{field} {rule}{given}" if field else f"{rule}{given}")
        self.field = field
        self.rule = rule


class TooLong(BadRequest):
    """The prompt, or the prompt with the answer asked for, exceeds the context."""

    def __init__(self, field: str, limit: int, got: int, rule: str = "") -> None:
        super().__init__(field, rule or f"has more tokens than the context of {limit} holds", got)
        self.limit = limit
        self.tokens = got


class Unauthorized(ServerError):
    status = 401


class NotFound(ServerError):
    status = 404


class TooLarge(ServerError):
    status = 413


class Overloaded(ServerError):
    """The queue is full; a client should try again after `retry_after` seconds."""

    status = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the server is busy: try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class NotImplementedHere(ServerError):
    status = 501


class Unavailable(ServerError):
    status = 503


class Internal(ServerError):
    status = 500


def short(value: Any, limit: int = 80) -> str:
    """`repr`, cut so that a message never carries a whole body."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
