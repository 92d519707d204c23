"""The JSON of /v1/chat/completions: messages, tools, request, response, and the chunks of a stream.

Types only: requests/ checks values. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from api.openai.protocol.completion import STREAM_NOTE
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import CommonRequest, RankedTokens, UsageInfo
from api.openapi.operation import Operation
from api.response import SSE

FinishReason = Literal["stop", "length", "tool_calls", "function_call", "content_filter"]


class ContentPart(Struct):
    """A part of a message's content: `{"type": "text", "text": …}`. Images and audio are refused.

    thinking, reasoning  text of a part of type thinking or reasoning: what the model thought
    """

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    thinking: Any = None
    reasoning: Any = None


Content = str | list[str | ContentPart]


class CalledFunction(Struct):
    """A called function; `arguments` is a JSON object, or its text, which the answer's end may have cut."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCallParam(Struct):
    """A tool call of an earlier answer."""

    function: CalledFunction
    id: str | None = None
    type: str | None = None


class ChatMessage(Struct):
    """One message of a conversation.

    role           system (or developer), user, assistant, tool (or function), or one that the model's chat
                   template renders
    content        text, or a list of text parts; may be null for the roles assistant and tool
    name           name of the author; in a tool's message, name of the tool
    tool_calls     calls of an assistant's message
    function_call  one call, in OpenAI's older format
    tool_call_id   in a tool's message: id of the call that it answers
    refusal        text of an assistant's message that has no content
    reasoning_content, reasoning   what the assistant thought before the content; for chat templates that
                   render it
    """

    role: str
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCallParam] | None = None
    function_call: CalledFunction | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class FunctionDefinition(Struct):
    """A function that the model may call; `parameters` is a JSON schema of type object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolParam(Struct):
    """A tool; the only `type` is function, and `function` is required."""

    function: FunctionDefinition = field(default_factory=lambda: FunctionDefinition(""))
    type: str = "function"


class NamedFunction(Struct):
    name: str


class NamedTool(Struct):
    function: NamedFunction
    type: str = "function"


class AllowedTools(Struct):
    """The tools that the answer may call. The prompt describes all tools.

    mode  auto, or required: the answer must call one of them
    """

    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class ToolChoice(Struct):
    """The tool that the answer must call, or with type allowed_tools, the tools that it may call."""

    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None
    type: str = "function"


class ChatCompletionRequest(CommonRequest, kw_only=True):
    """A request to answer a conversation.

    messages                  the conversation, oldest message first
    max_completion_tokens     takes precedence over max_tokens; if both are null: as many as the context holds
    logprobs, top_logprobs    report the logprob of each token, with this many alternatives
    tools                     functions that the model may call
    tool_choice               none, auto (default), required, one function, by name or as an object, or the
                              allowed functions
    parallel_tool_calls       false: the first call ends the answer
    functions, function_call  OpenAI's older form of tools and tool_choice; at most one call per answer
    reasoning_effort          passed to the chat template; none switches reasoning off, others switch it on
    reasoning_format          none: the content has the model's reasoning too; auto, deepseek: it is apart
    separate_reasoning        false: as reasoning_format none
    include_reasoning         false: the answer is without its reasoning
    stream_reasoning          false: a stream sends the reasoning at once, before the content
    add_generation_prompt     the answer is a new message; true unless continue_final_message is set
    continue_final_message    the answer continues the last message, which must be the assistant's
    chat_template_kwargs      further variables for the chat template
    documents                 passed to the chat template
    chat_template             must be null: the model's own template is used
    echo                      the answer begins with the last message if that is the assistant's
    store                     true: the chat completion can be read again, if the server has a store
    metadata                  of a stored chat completion: up to 16 pairs of text
    """

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolParam] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionDefinition] | None = None
    function_call: str | NamedFunction | None = None
    reasoning_effort: str | None = None
    reasoning_format: str | None = None
    separate_reasoning: bool | None = None
    include_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    chat_template: str | None = None
    echo: bool | None = None
    store: bool | None = None
    metadata: Any = None


class ChatLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprobsContent(ChatLogprob):
    top_logprobs: list[ChatLogprob]


class ChatLogprobs(Struct):
    content: list[ChatLogprobsContent]
    refusal: None = None  # OpenAI's field for the tokens of a refusal


class FunctionCall(Struct):
    name: str
    arguments: str


class FunctionToolCall(Struct, kw_only=True):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatResponseMessage(Struct, kw_only=True):
    """The reasoning, if there is any, has the names of SGLang and llama.cpp, and of vLLM and Ollama."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    refusal: None = None  # OpenAI's field: this server has no separate refusals
    tool_calls: list[FunctionToolCall]
    function_call: FunctionCall | UnsetType | None = UNSET


class ChatChoice(Struct):
    index: int
    message: ChatResponseMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | int | None
    token_ids: list[int] | UnsetType = UNSET


class ChatCompletionResponse(Struct, kw_only=True):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: UsageInfo
    system_fingerprint: str
    prompt_logprobs: RankedTokens | None
    prompt_token_ids: list[int] | UnsetType = UNSET


class DeltaFunctionCall(Struct, kw_only=True):
    """The first delta of a call has its name, later ones have more of its arguments."""

    name: str | UnsetType = UNSET
    arguments: str


class DeltaToolCall(Struct, kw_only=True):
    """A piece of a tool call. Clients join the deltas of an index; only the first has the id and the type."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: DeltaFunctionCall


class DeltaMessage(Struct, kw_only=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    refusal: UnsetType | None = UNSET
    tool_calls: list[DeltaToolCall] | UnsetType | None = UNSET
    function_call: DeltaFunctionCall | UnsetType = UNSET


class ChatChunkChoice(Struct, kw_only=True):
    """The part of a choice that one chunk adds."""

    index: int
    delta: DeltaMessage
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    finish_reason: FinishReason | None = None
    stop_reason: str | int | UnsetType | None = UNSET


class ChatCompletionStreamResponse(Struct, kw_only=True):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    system_fingerprint: str
    usage: UsageInfo | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET


CHAT = Operation(
    "Answer a conversation",
    STREAM_NOTE,
    ChatCompletionRequest,
    ChatCompletionResponse,
    (SSE.mimetype,),
    error=ErrorResponse,
    takes_permit=True,
)
