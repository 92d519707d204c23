"""The body of a Responses request. Only shapes; unknown fields are ignored, optional ones may be null."""

from typing import Any

from msgspec import Struct

from api.openai.bodies import Number
from api.openai.conversation import Content


class InputItem(Struct):
    """A piece of what was said before.

    type       message (also where it is not given), function_call, function_call_output, reasoning (ignored)
    role, content             of a message
    call_id, name, arguments  of a function_call
    call_id, output           of a function_call_output
    """

    type: str | None = None
    role: str | None = None
    content: Content | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content | None = None


class FunctionTool(Struct):
    """A function the model may call; `parameters` is a JSON schema of type object."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionChoice(Struct):
    """A function the answer must call."""

    type: str
    name: str = ""


class TextFormat(Struct):
    """What the answer must be: text, json_object, or json_schema with a schema."""

    type: str
    name: str | None = None
    schema: dict[str, Any] | bool | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct):
    format: TextFormat | None = None


class Reasoning(Struct):
    """`effort` is told to the chat template."""

    effort: str | None = None
    summary: str | None = None


class ResponsesBody(Struct, kw_only=True):
    """A request for a response. Nothing is kept of it: a conversation is sent whole each time.

    input                 text, or what was said so far
    instructions          what the system says first
    max_output_tokens     null: as many as the context holds
    temperature, top_p    as in a chat completion
    tools, tool_choice, parallel_tool_calls   functions; auto, none, required, or one of them
    text                  its format is what the answer must be
    reasoning             its effort is told to the chat template
    include               message.output_text.logprobs: report each token's logprob
    top_logprobs          with so many alternatives
    truncation            auto: drop the prompt's beginning where it is too long
    stream                server-sent events
    previous_response_id  not found, for nothing is kept; send what was said as input
    background, conversation, prompt   must be unset
    store, user           ignored; metadata is handed back
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
