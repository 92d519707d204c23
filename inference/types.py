"""The types that all layers share: requests, and the events that answer them. Plain values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from inference.content import MessageContent
from inference.prompt_scoring import PlaceScores, PromptScoring
from inference.sampling import Sampling

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "deadline", "cancelled", "filtered"]
ConstraintKind = Literal["json_schema", "regex", "choice", "grammar", "json"]
ModelStatus = Literal["unloaded", "loading", "loaded", "sleeping", "unloading", "failed"]
ToolFormat = Literal["json", "function_tag", "python_list"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. arguments: the text of a JSON object, or its start if the answer ended."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    parameters  a JSON schema of type object
    definition  the tool as the client sent it, for the chat template: {"type": "function", "function": …};
                None: made of the other fields
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    definition: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    role       a Role, or a role that only the model's chat template knows
    reasoning  what the model thought before the content of an assistant message
    """

    role: Role | str
    content: MessageContent
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()  # made by an assistant message
    tool_call_id: str | None = None  # the call that a tool message answers
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A structured output that the text must match.

    spec        by kind: a JSON schema (mapping), a regular expression, a list of choices, or a grammar
    field_name  the field of the request that sets the constraint, for error messages
    """

    kind: ConstraintKind
    spec: Any = None
    field_name: str = field(default="response_format", compare=False)


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """Options of a chat template, named as in transformers' apply_chat_template.

    add_generation_prompt   end the prompt with the start of an assistant message
    continue_final_message  leave the last message open: the answer continues it
    arguments               further template variables, by name
    """

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt, and all options of its `n` answers.

    prompt              text, token ids, or a conversation, which the model's chat template renders
    add_special_tokens  add the tokenizer's special tokens; None: decided by the kind of prompt
    truncate            keep at most this many prompt tokens, from the end
    max_tokens          None: generate until the context is full
    reject_if_too_long  refuse a max_tokens that does not fit behind the prompt; False: lower it
    min_tokens          stop tokens and stop strings have no effect before this many tokens
    stop                strings that end an answer; excluded from the text, unless include_stop_str_in_output
    stop_at_token_end   match a stop string only at the end of a token; special tokens match by their names
    stop_token_ids      ids that end an answer, in addition to the model's end tokens
    ignore_eos          the model's end tokens do not end an answer; no effect on structured output
    bad_words           texts whose usual tokenization is never generated, with or without a leading space
    show_special        include special tokens in the text
    constraint          structured output that the answers must match
    logprobs            alternatives to report with each token; 0: the sampled token alone, None: no logprobs
    logprobs_are_optional  the answer may lack them where its server does not compute them
    processed_logprobs  report logprobs after all logits processors and warpers; False: the model's own
    prompt_logprobs     as logprobs, for the tokens of the prompt
    prompt_scoring      with prompt_logprobs: other tokens to score at the places of the prompt
    tool_choice         "auto", "none", "required", or the name of one tool
    allowed_tools       names of the tools that may be called; None: all. The prompt describes all tools
    parallel_calls      allow several tool calls in an answer; False: the first call ends the answer
    tool_format         how the prompt describes the tools; None: as the chat template does
    cache_salt          prefix caching reuses tokens of requests with the same salt only
    deadline            seconds from submission; then the answer ends with finish_reason "deadline"
    output_token_ids    the answer's first tokens, which another replica of the model has generated: the
                        answer has them without logprobs, and goes on behind them. Only with n = 1
    group               a negative number that the prompts of one HTTP request have; 0: it has one prompt
    adapter             name of the adapter to apply; None: the model itself
    adapter_number      of the adapter's load, in a request that is resolved for the engine; 0: none
    """

    prompt: str | Sequence[int] | Sequence[Message]
    sampling: Sampling = field(default_factory=Sampling)
    template: TemplateOptions = field(default_factory=TemplateOptions)
    add_special_tokens: bool | None = None
    truncate: int | None = None
    max_tokens: int | None = None
    reject_if_too_long: bool = False
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    include_stop_str_in_output: bool = False
    stop_at_token_end: bool = False
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    bad_words: tuple[str, ...] = ()
    show_special: bool = False
    constraint: Constraint | None = None
    n: int = 1
    logprobs: int | None = None
    logprobs_are_optional: bool = False
    processed_logprobs: bool = False
    prompt_logprobs: int | None = None
    prompt_scoring: PromptScoring | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    allowed_tools: frozenset[str] | None = None
    parallel_calls: bool = True
    tool_format: ToolFormat | None = None
    cache_salt: str = ""
    deadline: float | None = None
    output_token_ids: tuple[int, ...] = ()
    group: int = 0
    adapter: str | None = None
    adapter_number: int = 0

    def in_group(self, group: int) -> "GenerationRequest":
        return replace(self, group=group)

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        allowed = self.allowed_tools
        return self.tools if allowed is None else tuple(tool for tool in self.tools if tool.name in allowed)

    @property
    def prompt_token_ids(self) -> tuple[int, ...]:
        """The prompt of a request that is resolved for the engine: it holds token ids."""
        return cast(tuple[int, ...], self.prompt)


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

    text      what the token adds to the answer. Empty for an incomplete character, a hidden special token,
              a part of a tool call, and text held back as the possible start of a stop string
    spelling  the token's own text; the name of a special token
    """

    index: int
    id: int  # -1: unknown
    text: str
    logprob: float | None = None
    top_logprobs: tuple[TopLogprob, ...] = ()
    is_special: bool = False
    spelling: str = ""


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

    text        the end of the answer's text, held back until now
    stop        the stop string or stop token id that ended the answer; None for an end token of the model
                and for every other finish_reason
    num_tokens  generated tokens, special tokens included
    seed        the seed in use, a random one if the request had none; None for greedy answers
    """

    index: int
    finish_reason: FinishReason
    text: str = ""
    stop: str | int | None = None
    num_tokens: int = 0
    seed: int | None = None
    prompt_tokens: int | None = None  # corrects that of Started; None: that is right
    cached_tokens: int | None = None  # likewise


Event = Started | Token | CallDelta | Finished


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model that a backend serves.

    context               tokens of prompt and answer together; None: unknown
    vocab, created        width of the logits; Unix time of the load
    chat_fallback_reason  why the model's chat template is not used, and what replaces it; empty if it is used
    details               further properties, such as dtype and device
    embedding_sizes       that an embedding may be cut to, ascending, its full size last; empty: unknown
    status                whether its weights are in memory
    status_detail         how far its load is, or why it failed; empty: nothing is known
    """

    id: str
    context: int | None
    vocab: int
    created: int
    chat_fallback_reason: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    embedding_sizes: Sequence[int] = ()
    status: ModelStatus = "loaded"
    status_detail: str = ""
