"""A request for answers: the prompt, what to generate and how. events.py has its answers. Plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from inference.content import MessageContent
from inference.prompt_scoring import PromptScoring
from inference.sampling import Sampling

Role = Literal["system", "user", "assistant", "tool"]
ConstraintKind = Literal["json_schema", "regex", "choice", "grammar", "json"]
ToolFormat = Literal["json", "function_tag", "python_list"]

REASONING_SWITCHES = ("enable_thinking", "thinking")  # in chat templates


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
    reasoning_effort        how much the model shall reason, in OpenAI's words; None: as by default
    """

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """All further variables; the effort is also in the switches of templates that know none."""
        if self.reasoning_effort is None:
            return dict(self.arguments)
        switches = dict.fromkeys(REASONING_SWITCHES, self.reasoning_effort != "none")
        return {"reasoning_effort": self.reasoning_effort, **switches, **self.arguments}


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
    separate_reasoning  in a chat, report what the model thinks as Token.reasoning; False: as part of the text
    tool_format         how the prompt describes the tools; None: as the chat template does
    cache_salt          prefix caching reuses tokens of requests with the same salt only
    deadline            seconds from submission; then the answer ends with finish_reason "deadline"
    output_token_ids    the answer's first tokens, which another replica of the model has generated: the
                        answer has them without logprobs, and goes on behind them. Only with n = 1
    in_background       it yields to requests that are not: their answers hardly wait for it
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
    separate_reasoning: bool = False
    tool_format: ToolFormat | None = None
    cache_salt: str = ""
    deadline: float | None = None
    output_token_ids: tuple[int, ...] = ()
    in_background: bool = False
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
