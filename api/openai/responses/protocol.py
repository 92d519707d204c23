"""The JSON of /v1/responses.

Types only: parse.py checks values. Unknown fields are ignored, and every optional field accepts null.
"""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.chat import Content
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import Number
from api.openapi.operation import Operation
from api.response import SSE


class InputItem(Struct):
    """An item of the conversation.

    type                      message (default), function_call, function_call_output, or reasoning (ignored)
    role, content             fields of a message
    call_id, name, arguments  fields of a function_call
    call_id, output           fields of a function_call_output
    """

    type: str | None = None
    role: str | None = None
    content: Content | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content | None = None


class FunctionTool(Struct):
    """A function that the model may call; `parameters` is a JSON schema of type object."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionChoice(Struct):
    """The function that the answer must call."""

    type: str
    name: str = ""


class TextFormat(Struct):
    """The format of the answer: text, json_object, or json_schema with a `schema`."""

    type: str
    name: str | None = None
    schema: dict[str, Any] | bool | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct):
    format: TextFormat | None = None


class Reasoning(Struct):
    """`effort` is passed to the chat template; `summary` is only repeated in the response."""

    effort: str | None = None
    summary: str | None = None


class ResponsesRequest(Struct, kw_only=True):
    """A request for a response. The server stores nothing: send the whole conversation each time.

    input                 text, or the items of the conversation
    instructions          a system message, put before the input
    max_output_tokens     null: as many as the context holds
    temperature, top_p    as in a chat completion
    tools, tool_choice, parallel_tool_calls   as in a chat completion; only function tools
    text                  text.format is the format of the answer
    reasoning             reasoning.effort is passed to the chat template
    include               message.output_text.logprobs: report the logprob of each token
    top_logprobs          alternatives to report for each token
    truncation            auto: drop the beginning of a prompt that is too long
    stream                send server-sent events
    previous_response_id  refused with 404, because nothing is stored; send the conversation as input
    background, conversation, prompt   must be unset
    metadata              repeated in the response
    store, user           ignored
    """

    input: str | list[InputItem]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: str | FunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    truncation: str | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None
    metadata: dict[str, Any] | None = None


Status = Literal["completed", "incomplete", "in_progress"]


class ResponseUsage(Struct):
    input_tokens: int
    input_tokens_details: dict[str, int]  # openai 3's client requires cache_write_tokens
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponsesResponse(Struct, kw_only=True):
    """A response. The fields from `instructions` on repeat the request, or its defaults."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    error: None = None
    incomplete_details: dict[str, str] | None
    model: str
    output: list[dict[str, Any]]
    usage: ResponseUsage | None
    system_fingerprint: str
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, Any]
    parallel_tool_calls: bool
    previous_response_id: None = None
    reasoning: Reasoning
    store: bool = False
    background: bool = False
    temperature: Number
    text: dict[str, Any]
    tool_choice: str | FunctionChoice
    tools: list[FunctionTool]
    top_logprobs: int
    top_p: Number
    truncation: str


RESPOND = Operation(
    "Create a response",
    "With `stream`, the server sends server-sent events, named by their type. Nothing is stored.",
    ResponsesRequest,
    ResponsesResponse,
    (SSE.mimetype,),
    error=ErrorResponse,
)
NOT_STORED = Operation(
    "Answers 404: the server stores no responses", response=None, error=ErrorResponse, refuses=True
)
