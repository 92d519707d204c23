"""Converts the messages, tools and tool choice of a chat request to the types of inference/types.py.

Checks values: roles, types of content parts, tool names, JSON of arguments.
"""

import json
from typing import Any

from msgspec import structs

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import (
    ChatCompletionRequest,
    ChatMessage,
    Content,
    ContentPart,
    NamedFunction,
    NamedTool,
    ToolCallParam,
    ToolParam,
)
from inference import untrusted_json
from inference.content import MessageContent, TextPart, content_of
from inference.errors import short
from inference.types import Message, Role, Tool, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # OpenAI's older API
}
TOOL_CHOICES = ("none", "auto", "required")
NO_MATCH = "The tool specified in `tool_choice` does not match any of the specified `tools`"
TEXT_TYPES = ("text", "input_text", "output_text")


def parse_messages(messages: list[ChatMessage], field: str = "messages") -> tuple[Message, ...]:
    """Raises InvalidBody, and InvalidParameter for content other than text."""
    if not messages:
        raise InvalidBody(f"{field} must hold at least one message", field)
    calls = [call for message in messages for call in message.tool_calls or ()]
    names = {call.id: call.function.name for call in calls if call.id}
    return tuple(_parse_message(message, names, f"{field}[{i}]") for i, message in enumerate(messages))


def parse_content(content: Content | None, field: str) -> MessageContent:
    """Raises InvalidBody, and InvalidParameter for content other than text."""
    if content is None or isinstance(content, str):
        return content or ""
    return content_of(TextPart(_part_text(each, f"{field}[{i}]")) for i, each in enumerate(content))


def call_arguments(value: str | dict[str, Any] | None, field: str) -> str:
    """The arguments of a call as JSON text. Raises InvalidBody unless they are a JSON object."""
    if not isinstance(value, str):
        return json.dumps(value or {}, ensure_ascii=False)
    try:
        untrusted_json.parse_json_object(value or "{}")
    except ValueError:
        raise InvalidBody(f"{field} must be a JSON object, got {short(value)}", field) from None
    return value or "{}"


def _parse_message(message: ChatMessage, names: dict[str, str], field: str) -> Message:
    """`names`: call id -> function name, for tool messages that have only the call's id."""
    if message.role not in ROLES:
        rule = f"{field}.role must be one of {', '.join(ROLES)}, got {short(message.role)}"
        raise InvalidBody(rule, f"{field}.role")
    role = ROLES[message.role]
    if message.content is None and role in ("system", "user"):
        raise InvalidBody(f"{field}.content must not be null", f"{field}.content")
    content = parse_content(message.content, f"{field}.content") or message.refusal or ""
    if role == "tool":
        name = message.name or names.get(message.tool_call_id or "")
        return Message("tool", content, name, tool_call_id=message.tool_call_id)
    calls = _tool_calls(message, field) if role == "assistant" else ()
    return Message(role, content, message.name, calls)


def _tool_calls(message: ChatMessage, field: str) -> tuple[ToolCall, ...]:
    if message.function_call and not message.tool_calls:
        return (_tool_call(ToolCallParam(message.function_call), f"{field}.function_call"),)
    calls = enumerate(message.tool_calls or ())
    return tuple(_tool_call(call, f"{field}.tool_calls[{i}].function") for i, call in calls)


def _part_text(content_part: str | ContentPart, field: str) -> str:
    if isinstance(content_part, str):
        return content_part
    if content_part.type == "refusal":
        return content_part.refusal or ""
    if content_part.type not in TEXT_TYPES:
        raise InvalidParameter(
            f"{field} is of type {short(content_part.type)}, and the served model reads text only", field
        )
    if content_part.text is None:
        raise InvalidBody(f"{field} is of type {content_part.type} but has no text", field)
    return content_part.text


def _tool_call(call: ToolCallParam, field: str) -> ToolCall:
    arguments = call_arguments(call.function.arguments, f"{field}.arguments")
    return ToolCall(call.id or "", call.function.name, arguments)


def functions_to_tools(body: ChatCompletionRequest) -> ChatCompletionRequest:
    """Convert `functions` and `function_call` (OpenAI's older API) to tools. Raises InvalidBody."""
    if not body.functions:
        if body.function_call not in (None, "none", "auto"):
            raise InvalidBody("When using `function_call`, `functions` must be set.", "function_call")
        return body
    if body.tools:
        raise InvalidBody("functions and tools cannot both be set.", "functions")
    choice = body.function_call
    return structs.replace(
        body,
        tools=[ToolParam(function) for function in body.functions],
        tool_choice=NamedTool(choice) if isinstance(choice, NamedFunction) else choice,
        parallel_tool_calls=False,
    )


def parse_tools(definitions: list[ToolParam] | None) -> tuple[Tool, ...]:
    """Raises InvalidBody for a tool that is not a function or has no name."""
    for i, tool in enumerate(definitions or ()):
        if tool.type != "function":
            raise InvalidBody(f"tools[{i}].type must be function, got {short(tool.type)}", f"tools[{i}].type")
        if not tool.function.name:
            raise InvalidBody(f"tools[{i}].function.name must not be empty", f"tools[{i}].function.name")
    return tuple(_tool(tool) for tool in definitions or ())


def _tool(tool: ToolParam) -> Tool:
    function = tool.function
    parameters = function.parameters or {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", parameters)


def parse_tool_choice(body: ChatCompletionRequest) -> str:
    """Returns none, auto (the default), required, or the name of the tool to call. Raises InvalidBody."""
    name = choice_name(body.tool_choice)
    if name is None or name == "none":
        return name or "auto"
    if body.tools is None or (not body.tools and name != "auto"):
        raise InvalidBody("When using `tool_choice`, `tools` must be set.", "tool_choice")
    names = [tool.function.name for tool in body.tools]
    if name not in names and not (isinstance(body.tool_choice, str) and name in TOOL_CHOICES):
        raise InvalidBody(NO_MATCH, "tool_choice")
    return name


def choice_name(choice: str | NamedTool | None) -> str | None:
    return choice.function.name if isinstance(choice, NamedTool) else choice


def forces_named_tool(body: ChatCompletionRequest) -> bool:
    """Whether tool_choice names one tool. As in vLLM, finish_reason is then stop, not tool_calls."""
    return body.tool_choice is not None and choice_name(body.tool_choice) not in TOOL_CHOICES
