"""The vocabulary of the server: what is asked and what comes back.

Every floor speaks it. Plain values only: no torch, no HTTP, no tokenizer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inference.sampling import Sampling

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
class Constraint:
    """What the text must match. `spec` is a schema (mapping), a pattern, a list of choices or a grammar."""

    kind: ConstraintKind
    spec: Any = None


@dataclass(frozen=True, slots=True)
class Template:
    """How a conversation goes through the chat template.

    opens      the assistant's next message begins behind it; False: it ends with the last message
    continues  the last message is not closed: the answer goes on with it
    arguments  further values for the template, by name
    """

    opens: bool = True
    continues: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and everything that shapes its answers.

    prompt          text, token ids, or a conversation for the model's chat template
    template        how a conversation is told
    special         whether the tokenizer adds its special tokens; None: as suits the kind of prompt
    truncate        keep no more than the last so many prompt tokens
    max_tokens      None: as many as the context holds
    fits            max_tokens must fit behind the prompt; False: what does not fit is not generated
    stop            strings that end the text and are not part of it, unless keep_stop
    stop_aligned    a stop string counts only where a token ends, and special tokens count by their names
    stop_tokens     ids that end the text, besides the model's own
    bad_words       texts that never come in the tokens they usually have, whether or not a space is before
    show_special    special tokens are part of the text
    logprobs        alternatives to report with each token; None: no logprobs, 0: the chosen token's alone
    warped          logprobs are of the distribution behind all edits and warpers, not of the model's own
    prompt_logprobs the same, for the prompt's own tokens
    deadline        seconds from submission after which the answer ends with reason "deadline"
    tool_choice     "auto", "none", "required", or the name of one tool
    parallel_calls  an answer may hold several calls; False: its first one ends it
    tool_format     how tools are described to the model; None: as its chat template does
    """

    prompt: str | Sequence[int] | Sequence[Message]
    sampling: Sampling = field(default_factory=Sampling)
    template: Template = field(default_factory=Template)
    special: bool | None = None
    truncate: int | None = None
    max_tokens: int | None = None
    fits: bool = False
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    keep_stop: bool = False
    stop_aligned: bool = False
    stop_tokens: tuple[int, ...] = ()
    ignore_eos: bool = False
    bad_words: tuple[str, ...] = ()
    show_special: bool = False
    constraint: Constraint | None = None
    n: int = 1
    logprobs: int | None = None
    warped: bool = False
    prompt_logprobs: int | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    parallel_calls: bool = True
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
    special: bool = False


@dataclass(frozen=True, slots=True)
class PromptToken:
    """A token of the prompt and how likely it was. The first has logprob None, for nothing came before.

    rank  how many tokens were at least as likely; the most likely has 1
    """

    id: int
    text: str
    logprob: float | None
    rank: int = 0
    top: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """The answer `index` begins; its prompt has been computed. `ids` are the prompt's, `prompt` says more of
    each where prompt_logprobs was asked. `waited`: seconds from submission until it was its turn."""

    index: int
    prompt_tokens: int
    cached_tokens: int
    ids: tuple[int, ...] = ()
    prompt: tuple[PromptToken, ...] = ()
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    text      what it adds to the answer; may be empty (half a character, text held back because it may belong
              to a stop string, a special token, part of a tool call)
    spelling  how the token is written by itself: of a special one, its name
    """

    index: int
    id: int
    text: str
    logprob: float | None = None
    top: tuple[Alternative, ...] = ()
    special: bool = False
    spelling: str = ""


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
class Piece:
    """A token of a text, and the characters [start, stop) of it that it stands for.

    text  what it adds to a text; name: what the vocabulary calls it
    """

    id: int
    text: str
    start: int
    stop: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A request's prompt as the model reads it: the text, as its chat template told it, and the tokens."""

    text: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Embedding:
    """One input's vector, and how many tokens it was made from."""

    vector: tuple[float, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(Finished):
    """The one event of what embeds: a vector for each input, in their order."""

    embeddings: tuple[Embedding, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU's memory in bytes: its own figures (free, total), and this process's share of them."""

    name: str
    total: int
    free: int
    reserved: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a backend is. used: the share, 0 to 1, of its room for tokens that running answers take."""

    running: int = 0
    waiting: int = 0
    used: float = 0.0
    devices: tuple[Device, ...] = ()


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
