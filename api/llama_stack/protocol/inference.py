"""The JSON of Llama Stack's inference routes: requests and responses of all protocol versions.

Types only: parse.py and messages.py check values. Unknown fields are ignored, and every optional field
accepts null. A response field that a version does not have is UNSET, and left out.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

ToolPromptFormat = Literal["json", "function_tag", "python_list"]


class ContentItem(Struct):
    """A part of a message's content: `{"type": "text", "text": …}`. Images are refused."""

    type: str | None = None
    text: str | None = None


Content = str | ContentItem | list[str | ContentItem]


class MessageToolCall(Struct):
    """A tool call of an earlier answer. `arguments` is a JSON object or text, `arguments_json` text."""

    tool_name: str
    call_id: str | None = None
    arguments: dict[str, Any] | str | None = None
    arguments_json: str | None = None


class ConversationMessage(Struct):
    """One message.

    role                system, user, assistant, or tool (ipython before 0.1)
    content             text, one part, or a list; may be null for an assistant
    context             in a user's message: retrieved text, added after the content
    call_id, tool_name  in a tool's message: the call that it answers
    tool_calls          in an assistant's message: its calls
    """

    role: str
    content: Content | None = None
    context: Content | None = None
    call_id: str | None = None
    tool_name: str | None = None
    tool_calls: list[MessageToolCall] | None = None


class SamplingStrategy(Struct):
    type: str
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


class SamplingParams(Struct):
    """How to sample. Without a strategy, temperature 0 or 1 is greedy.

    strategy            greedy, top_p or top_k: since 0.1 an object with its values, before that a name
    temperature, top_p, top_k   values of a strategy that is a name
    max_tokens          limit of the answer; 0 or null: the server's default
    repetition_penalty  1 is off
    stop                strings that end the answer
    seed                the same seed gives the same answer; null: random
    """

    strategy: SamplingStrategy | str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None


class ToolParameter(Struct):
    param_type: str
    description: str | None = None
    required: bool | None = None
    default: Any = None


class ToolDefinition(Struct):
    tool_name: str
    description: str | None = None
    parameters: dict[str, ToolParameter] | None = None


class ToolConfig(Struct):
    tool_choice: str | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    system_message_behavior: Literal["append", "replace"] | None = None


class JsonSchemaResponseFormat(Struct, tag_field="type", tag="json_schema"):
    json_schema: dict[str, Any]


class GrammarResponseFormat(Struct, tag_field="type", tag="grammar"):
    bnf: dict[str, Any] | str


class LogprobsOptions(Struct):
    top_k: int | None = None


class ModelRequest(Struct, kw_only=True):
    """Names the model in `model_id`, or in `model` from clients before 0.0.53. One is required."""

    model: str | None = None
    model_id: str | None = None


class EmbeddingsRequest(ModelRequest, kw_only=True):
    """Texts to embed.

    output_dimension  size of the vectors, one that the model allows; default: its full size
    """

    contents: list[Content]
    output_dimension: int | None = None


class InferenceRequest(ModelRequest, kw_only=True):
    """The fields of every request that generates.

    logprobs  report logprobs; top_k is the number of alternatives
    """

    sampling_params: SamplingParams | None = None
    response_format: JsonSchemaResponseFormat | GrammarResponseFormat | None = None
    logprobs: LogprobsOptions | None = None


class LlamaStackCompletionRequest(InferenceRequest, kw_only=True):
    content: Content
    stream: bool | None = None


class BatchCompletionRequest(InferenceRequest, kw_only=True):
    content_batch: list[Content]


class ToolsRequest(InferenceRequest, kw_only=True):
    tools: list[ToolDefinition] | None = None
    tool_choice: str | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    tool_config: ToolConfig | None = None


class LlamaStackChatRequest(ToolsRequest, kw_only=True):
    messages: list[ConversationMessage]
    stream: bool | None = None


class BatchChatRequest(ToolsRequest, kw_only=True):
    messages_batch: list[list[ConversationMessage]]


class TokenLogprobs(Struct):
    """The logprobs of a token and its alternatives, by text."""

    logprobs_by_token: dict[str, float]


class ResponseMetric(Struct):
    metric: str
    value: int
    unit: str | None = None


class TextContent(Struct):
    """Text with a type: a streamed delta, or the content of a message under /passthrough."""

    type: Literal["text"]
    text: str


class ToolCallResponse(Struct):
    """A complete tool call. `arguments_json` exists since 0.1."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    arguments_json: str | UnsetType = UNSET


class ToolCallDelta(Struct):
    """A streamed piece of a tool call, since 0.1. `tool_call` is JSON text until the call is complete."""

    type: Literal["tool_call"]
    tool_call: str | ToolCallResponse
    parse_status: str


class UntypedToolCallDelta(Struct):
    """A streamed piece of a tool call, before 0.1. `content` is JSON text until the call is complete."""

    content: str | ToolCallResponse
    parse_status: str


class CompletionMessage(Struct):
    role: str
    content: str | TextContent
    stop_reason: str
    tool_calls: list[ToolCallResponse]


class CompletionChunk(Struct):
    """An event of a streamed completion. The last one has the stop reason."""

    delta: str
    stop_reason: str | None = None
    logprobs: list[TokenLogprobs] | None = None


class ChatEvent(Struct):
    """`event_type` is start, progress or complete."""

    event_type: str
    delta: str | TextContent | ToolCallDelta | UntypedToolCallDelta
    logprobs: list[TokenLogprobs] | None = None
    stop_reason: str | None = None


class ChatChunk(Struct, kw_only=True):
    """A line of a streamed chat completion. Since 0.1, `metrics` is null except in the last line."""

    metrics: list[ResponseMetric] | UnsetType | None = UNSET
    event: ChatEvent


class LlamaStackCompletionResponse(Struct, kw_only=True):
    completion_message: CompletionMessage | UnsetType = UNSET
    content: str
    stop_reason: str
    logprobs: list[TokenLogprobs] | None
    metrics: list[ResponseMetric] | UnsetType = UNSET


class LlamaStackChatResponse(Struct):
    completion_message: CompletionMessage
    logprobs: list[TokenLogprobs] | None
    metrics: list[ResponseMetric] | UnsetType = UNSET


class BatchCompletionResponse(Struct):
    batch: list[LlamaStackCompletionResponse]
    completion_message_batch: list[CompletionMessage] | UnsetType = UNSET


class BatchChatResponse(Struct):
    batch: list[LlamaStackChatResponse]
    completion_message_batch: list[CompletionMessage] | UnsetType = UNSET


class EmbeddingsResponse(Struct):
    embeddings: list[tuple[float, ...]]
