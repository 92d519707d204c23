"""Converts Llama Stack's messages and tool definitions to the types of inference/types.py.

Messages of all protocol versions are accepted: the role `ipython` means `tool`, and content may be text, a
part or a list. A tool's parameters become a JSON schema.
"""

import json
from dataclasses import replace
from typing import Any

from api.llama_stack.protocol.inference import (
    Content,
    ContentItem,
    ConversationMessage,
    MessageToolCall,
    ToolDefinition,
    ToolParameter,
)
from inference import untrusted_json
from inference.content import MessageContent, TextPart, concatenate, content_of
from inference.errors import BadRequest
from inference.types import Message, Tool, ToolCall

ROLES = ("user", "system", "assistant", "tool", "ipython")
DEFINITIONS_PLACEHOLDER = "{{function_definitions}}"

# Parameter types as clients spell them → types in JSON Schema.
JSON_TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "double": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}

# Tools that clients may name without defining them: name → (description, name of the only argument).
BUILTIN_TOOLS = {
    "brave_search": ("Search the web.", "query"),
    "wolfram_alpha": ("Compute, or look up facts and figures.", "query"),
    "photogen": ("Make a picture from a description.", "query"),
    "code_interpreter": ("Run Python code.", "code"),
}


def parse_content(content: Content | None, field: str) -> MessageContent:
    """Raises BadRequest for content other than text."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return content_of(TextPart(_item_text(item, f"{field}[{i}]")) for i, item in enumerate(content))
        case ContentItem():
            return content_of([TextPart(_item_text(content, field))])


def _item_text(item: str | ContentItem, field: str) -> str:
    if isinstance(item, str):
        return item
    if item.text is not None and item.type in (None, "text"):
        return item.text
    if item.type == "text":
        raise BadRequest(field, "is of type text but has no text")
    raise BadRequest(field, "is not text, and the served model reads text only", item.type or "an image")


def parse_messages(messages: list[ConversationMessage], field: str) -> tuple[Message, ...]:
    if not messages:
        raise BadRequest(field, "must hold at least one message")
    calls = [call for message in messages for call in message.tool_calls or ()]
    names = {call.call_id: call.tool_name for call in calls if call.call_id}
    return tuple(_parse_message(message, names, f"{field}[{i}]") for i, message in enumerate(messages))


def _parse_message(message: ConversationMessage, names: dict[str, str], field: str) -> Message:
    """`names`: call id -> tool name, for tool messages that have only the call's id."""
    if message.content is None and message.role != "assistant":
        raise BadRequest(f"{field}.content", "must not be null")
    content = parse_content(message.content, f"{field}.content")
    match message.role:
        case "tool" | "ipython":
            name = message.tool_name or names.get(message.call_id or "")
            return Message("tool", content, name=name, tool_call_id=message.call_id)
        case "assistant":
            calls = enumerate(message.tool_calls or ())
            return Message(
                "assistant",
                content,
                tool_calls=tuple(_tool_call(call, f"{field}.tool_calls[{i}]") for i, call in calls),
            )
        case "user" if message.context is not None:
            context = parse_content(message.context, f"{field}.context")
            return Message("user", concatenate(concatenate(content, "\n\n"), context))
        case "user" | "system" as role:
            return Message(role, content)
        case role:
            raise BadRequest(f"{field}.role", f"must be one of {', '.join(ROLES)}", role)


def _tool_call(call: MessageToolCall, field: str) -> ToolCall:
    id = call.call_id or ""
    value = call.arguments_json if call.arguments_json is not None else call.arguments
    if not isinstance(value, str):
        return ToolCall(id, call.tool_name, json.dumps(value or {}, ensure_ascii=False))
    try:
        untrusted_json.parse_json_object(value)
    except ValueError:
        raise BadRequest(f"{field}.arguments", "must be a JSON object", value) from None
    return ToolCall(id, call.tool_name, value)


def parse_tools(definitions: list[ToolDefinition] | None) -> tuple[Tool, ...]:
    return tuple(map(_tool, definitions or ()))


def _tool(tool: ToolDefinition) -> Tool:
    description, argument = BUILTIN_TOOLS.get(tool.tool_name, ("", ""))
    parameters = tool.parameters
    if parameters is None:
        parameters = {argument: ToolParameter("string", required=True)} if argument else {}
    schema = {
        "type": "object",
        "properties": {name: _property(value) for name, value in parameters.items()},
        "required": [name for name, value in parameters.items() if value.required is not False],
    }
    return Tool(tool.tool_name, tool.description or description, schema)


def _property(parameter: ToolParameter) -> dict[str, Any]:
    """The parameter as a JSON schema. List[str] becomes an array; unknown types are left out."""
    base_type = parameter.param_type.partition("[")[0].strip().lower()
    schema: dict[str, Any] = {"type": JSON_TYPES[base_type]} if base_type in JSON_TYPES else {}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def insert_definitions(conversation: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[Message, ...]:
    """Replace DEFINITIONS_PLACEHOLDER in system messages with the JSON of the tools' definitions."""
    names = ("name", "description", "parameters")
    listed = json.dumps([{name: getattr(tool, name) for name in names} for tool in tools])
    return tuple(
        replace(message, content=_replace_placeholder(message.content, listed))
        if message.role == "system"
        else message
        for message in conversation
    )


def _replace_placeholder(content: MessageContent, text: str) -> MessageContent:
    if isinstance(content, str):
        return content.replace(DEFINITIONS_PLACEHOLDER, text)
    return tuple(TextPart(each.text.replace(DEFINITIONS_PLACEHOLDER, text)) for each in content)
