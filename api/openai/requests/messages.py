"""Converts the messages and tools of a chat request to the types of inference/types.py.

Checks values: types of content parts, names of tools. The chat template decides about unusual roles.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs, to_builtins

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import (
    ChatCompletionRequest,
    ChatMessage,
    Content,
    ContentPart,
    NamedFunction,
    ToolCallParam,
    ToolChoice,
    ToolParam,
)
from inference.content import TEXT_TYPES, MessageContent, TextPart, content_of
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
REASONING_TYPES = ("thinking", "reasoning", "redacted_thinking")


def parse_messages(messages: list[ChatMessage], field: str = "messages") -> tuple[Message, ...]:
    """Raises InvalidBody, and InvalidParameter for content other than text."""
    if not messages:
        raise InvalidBody(f"{field} must hold at least one message", field)
    calls = [call for message in messages for call in message.tool_calls or ()]
    names = {call.id: call.function.name for call in calls if call.id}
    return tuple(_parse_message(message, names, f"{field}[{i}]") for i, message in enumerate(messages))


def parse_content(content: Content | None, field: str) -> MessageContent:
    """The content without its reasoning. Raises InvalidBody, and InvalidParameter for other than text."""
    if content is None or isinstance(content, str):
        return content or ""
    return content_of(
        TextPart(_part_text(each, f"{field}[{i}]"))
        for i, each in enumerate(content)
        if not _is_reasoning(each)
    )


def call_arguments(value: str | dict[str, Any] | None) -> str:
    """The arguments of a call as text: of a JSON object, or of the part that max_tokens has left of it."""
    if not isinstance(value, str):
        return json.dumps(value or {}, ensure_ascii=False)
    return value or "{}"


def _parse_message(message: ChatMessage, names: dict[str, str], field: str) -> Message:
    """`names`: call id -> function name, for tool messages that have only the call's id."""
    if not message.role:
        raise InvalidBody(f"{field}.role must not be empty", f"{field}.role")
    role = ROLES.get(message.role, message.role)
    if message.content is None and role in ("system", "user"):
        raise InvalidBody(f"{field}.content must not be null", f"{field}.content")
    content = parse_content(message.content, f"{field}.content") or message.refusal or ""
    if role == "tool":
        name = message.name or names.get(message.tool_call_id or "")
        return Message("tool", content, name, tool_call_id=message.tool_call_id)
    if role == "assistant":
        return Message(role, content, message.name, _tool_calls(message), reasoning=_reasoning(message))
    return Message(role, content, message.name)


def _tool_calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    if message.function_call and not message.tool_calls:
        return (_tool_call(ToolCallParam(message.function_call)),)
    return tuple(map(_tool_call, message.tool_calls or ()))


def _reasoning(message: ChatMessage) -> str:
    """The first that has text: reasoning_content, reasoning (vLLM sends both), the parts of the content."""
    for value in (message.reasoning_content, message.reasoning):
        if value and isinstance(value, str):
            return value
    content = message.content if isinstance(message.content, list) else ()
    return "".join(map(_reasoning_text, content))


def _is_reasoning(content_part: str | ContentPart) -> bool:
    return isinstance(content_part, ContentPart) and content_part.type in REASONING_TYPES


def _reasoning_text(content_part: str | ContentPart) -> str:
    """The text of a part of reasoning. Mistral's is a list of text parts, a redacted one has none."""
    if isinstance(content_part, str) or content_part.type not in REASONING_TYPES:
        return ""
    value = content_part.thinking or content_part.reasoning or content_part.text
    if isinstance(value, list):
        texts = [each.get("text") for each in value if isinstance(each, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


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


def _tool_call(call: ToolCallParam) -> ToolCall:
    return ToolCall(call.id or "", call.function.name, call_arguments(call.function.arguments))


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
        tool_choice=ToolChoice(choice) if isinstance(choice, NamedFunction) else choice,
        parallel_tool_calls=False,
    )


def parse_tools(
    definitions: list[ToolParam] | None, sent_tools: Sequence[Mapping[str, Any]] = ()
) -> tuple[Tool, ...]:
    """Raises InvalidBody for a tool that is not a function or has no name.

    sent_tools  the definitions as the client's JSON has them, with the keys that ToolParam does not know.
                Empty: the client's JSON does not have them
    """
    for i, tool in enumerate(definitions or ()):
        if tool.type != "function":
            rule = f"must be function, got {short(tool.type)}: only /v1/responses takes other tools"
            raise InvalidBody(f"tools[{i}].type {rule}", f"tools[{i}].type")
        if not tool.function.name:
            raise InvalidBody(f"tools[{i}].function.name must not be empty", f"tools[{i}].function.name")
    return tuple(map(_tool, definitions or (), sent_tools or map(_definition, definitions or ())))


def sent_tools(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The tools in the JSON of a chat, with the keys and the order that the client gave them."""
    functions = body.get("functions") or ()
    return body.get("tools") or [{"type": "function", "function": function} for function in functions]


def _tool(tool: ToolParam, definition: Mapping[str, Any]) -> Tool:
    function = tool.function
    parameters = function.parameters or {"type": "object", "properties": {}}
    return Tool(function.name, function.description or "", parameters, definition)


def _definition(tool: ToolParam) -> dict[str, Any]:
    """The definition of a tool that is not in the client's JSON, without the fields that have no value."""
    fields = {name: value for name, value in to_builtins(tool.function).items() if value is not None}
    return {"type": tool.type, "function": fields}
