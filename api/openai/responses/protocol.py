"""The JSON of /v1/responses.

Types only: parse.py checks values. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.chat import ContentPart
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import Number, SamplingFields
from api.openai.responses.tool_protocol import ResponsesTool, ResponsesToolChoice
from api.openai.stored import PAGE_PARAMETERS
from api.openapi.operation import Operation
from api.response import SSE


class AgentContentPart(ContentPart):
    """A part of an agent_message."""

    encrypted_content: str | None = None


class InputItem(Struct):
    """An item of the conversation. Items of other types than these are ignored.

    type               message (default), reasoning, function_call, function_call_output, custom_tool_call,
                       custom_tool_call_output, additional_tools, agent_message, compaction; and content parts
    role               of a message
    content            of a message, agent_message or reasoning: text, or a list of content parts
    text               of an input_text
    call_id            id of a call, in the call and in its output
    namespace          namespace of the tool that is called, if it has one
    name               name of the tool that is called
    arguments          of a function_call: the text of a JSON object
    input              of a custom_tool_call
    output             of a function_call_output or custom_tool_call_output: text, or a list of content parts
    tools              of additional_tools: as the request's tools
    encrypted_content  of a compaction: the summary of earlier turns, as /responses/compact made it
    """

    type: str | None = None
    role: str | None = None
    content: Any = None
    text: str | None = None
    call_id: str | None = None
    namespace: str | None = None
    name: str | None = None
    arguments: Any = None
    input: str | None = None
    output: Any = None
    tools: Any = None
    encrypted_content: str | None = None


class TextFormat(Struct, omit_defaults=True):
    """The format of the answer: text, json_object, or json_schema with a `schema`."""

    type: str
    name: str | None = None
    schema: dict[str, Any] | bool | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct):
    """`verbosity` is only repeated in the response."""

    format: TextFormat | None = None
    verbosity: str | None = None


class Reasoning(Struct):
    """`effort` is a chat's reasoning_effort; `summary` is only repeated in the response."""

    effort: str | None = None
    summary: str | None = None


class ConversationReference(Struct):
    id: str


class ResponsesRequest(SamplingFields, kw_only=True):
    """A request for a response. The fields of SamplingFields are those of a chat completion.

    input                 text, or the items of the conversation; may be left out if earlier turns are named
    instructions          a system message, put before the input
    max_output_tokens     null: as many as the context holds
    tools                 functions, custom tools, and namespaces of them; tools of other types are ignored
    tool_choice, parallel_tool_calls   as in a chat completion
    text                  text.format is the format of the answer
    reasoning             reasoning.effort is the reasoning_effort of a chat
    include               message.output_text.logprobs: report the logprob of each token
    top_logprobs          alternatives to report for each token
    truncation            auto: drop the beginning of a prompt that is too long
    stream                send server-sent events
    previous_response_id  the response continues this one, whose items and earlier items come before the input
    conversation          id of a conversation: its items come before the input, and it gets the new items
    store                 false: the response cannot be read again, nor continued by previous_response_id
    background            answer at once; the response is generated without the client, which polls it
    prompt                must be unset
    response_format       must be unset: it is text.format here
    metadata              up to 16 pairs of text, repeated in the response
    chat_template_kwargs  further variables for the chat template
    max_tool_calls, safety_identifier, prompt_cache_key   only repeated in the response
    """

    input: str | list[InputItem] | None = None
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: str | ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    truncation: str | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    conversation: str | ConversationReference | None = None
    prompt: Any = None
    response_format: Any = None
    metadata: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    max_tool_calls: int | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    @property
    def items(self) -> list[InputItem]:
        """The input; a text is a message of the user."""
        if isinstance(self.input, str):
            return [InputItem(role="user", content=self.input)]
        return self.input or []

    @property
    def conversation_id(self) -> str | None:
        conversation = self.conversation
        return conversation.id if isinstance(conversation, ConversationReference) else conversation


class InputTokensResponse(Struct):
    input_tokens: int
    object: Literal["response.input_tokens"] = "response.input_tokens"


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class ResponseUsage(Struct):
    input_tokens: int
    input_tokens_details: dict[str, int]  # openai 3's client requires cache_write_tokens
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseFailure(Struct):
    code: str
    message: str


class ResponsesResponse(Struct, kw_only=True):
    """A response. The fields from `instructions` on repeat the request, or its defaults.

    completed_at  Unix time of the end; null unless the status is completed
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None
    status: Status
    error: ResponseFailure | None = None
    incomplete_details: dict[str, str] | None
    model: str
    output: list[dict[str, Any]]
    usage: ResponseUsage | None
    system_fingerprint: str
    service_tier: Literal["default"] = "default"
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, Any]
    parallel_tool_calls: bool
    previous_response_id: str | None
    conversation: ConversationReference | None
    reasoning: Reasoning
    store: bool
    background: bool
    temperature: Number
    presence_penalty: Number
    frequency_penalty: Number
    text: dict[str, Any]
    tool_choice: str | ResponsesToolChoice
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: Number
    truncation: str
    safety_identifier: str | None
    prompt_cache_key: str | None


RESPOND = Operation(
    "Create a response",
    "With `stream`, the server sends server-sent events, named by their type. Unless `store` is false, the "
    "response is stored before its end is sent.",
    ResponsesRequest,
    ResponsesResponse,
    (SSE.mimetype,),
    error=ErrorResponse,
    takes_permit=True,
)
COUNT_INPUT_TOKENS = Operation(
    "Count the input tokens of a response",
    "The number is the `usage.input_tokens` of the response to the same body.",
    ResponsesRequest,
    InputTokensResponse,
    error=ErrorResponse,
)
GET_RESPONSE = Operation("Show a stored response", response=ResponsesResponse, error=ErrorResponse)
LIST_RESPONSES = Operation(
    "List the stored responses, each with its input",
    "For the clients of Llama Stack.",
    error=ErrorResponse,
    query={**PAGE_PARAMETERS, "model": "list the responses of this model"},
)
DELETE_RESPONSE = Operation("Delete a stored response", error=ErrorResponse)
CANCEL_RESPONSE = Operation(
    "Cancel a response that is generated in the background", response=ResponsesResponse, error=ErrorResponse
)
LIST_INPUT_ITEMS = Operation(
    "List the items that a stored response was generated from",
    "These are the items of earlier turns and of its request.",
    error=ErrorResponse,
    query=PAGE_PARAMETERS,
)
