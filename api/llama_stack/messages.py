"""Llama Stack's conversations and tools in the server's own terms.

All generations' message shapes are read alike: `ipython` is `tool`; content is text, a part or a list.
"""

import json
from typing import Any

from api.llama_stack.bodies import Call, ChatMessage, Content, Parameter, Part, ToolDef
from inference.types import BadRequest, Message, Tool, ToolCall

ROLES = ("user", "system", "assistant", "tool", "ipython")
DEFINITIONS = "{{function_definitions}}"

# What clients may call a parameter's type → the JSON schema's.
TYPES = {
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

# Tools that a client may name without describing them, with the one argument each takes.
BUILTIN = {
    "brave_search": ("Search the web.", "query"),
    "wolfram_alpha": ("Compute, or look up facts and figures.", "query"),
    "photogen": ("Make a picture from a description.", "query"),
    "code_interpreter": ("Run Python code.", "code"),
}


def text(content: Content | None, field: str) -> str:
    """The content's text; BadRequest where it holds anything else."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(text(part, f"{field}[{i}]") for i, part in enumerate(content))
        case Part():
            return _part(content, field)


def _part(part: Part, field: str) -> str:
    if part.text is not None and part.type in (None, "text"):
        return part.text
    if part.type == "text":
        raise BadRequest(field, "is of type text but has no text")
    raise BadRequest(field, "is not text, and the served model reads text only", part.type or "an image")


def messages(said: list[ChatMessage], field: str) -> tuple[Message, ...]:
    if not said:
        raise BadRequest(field, "must hold at least one message")
    names = {call.call_id: call.tool_name for message in said for call in message.tool_calls or ()}
    return tuple(_message(message, names, f"{field}[{i}]") for i, message in enumerate(said))


def _message(said: ChatMessage, names: dict[str, str], field: str) -> Message:
    """`names`: which tool each earlier call named, for answers that give the call's id alone."""
    if said.content is None and said.role != "assistant":
        raise BadRequest(f"{field}.content", "must not be null")
    content = text(said.content, f"{field}.content")
    match said.role:
        case "tool" | "ipython":
            name = said.tool_name or names.get(said.call_id or "")
            return Message("tool", content, name=name, tool_call_id=said.call_id)
        case "assistant":
            calls = enumerate(said.tool_calls or ())
            return Message(
                "assistant",
                content,
                tool_calls=tuple(_call(call, f"{field}.tool_calls[{i}]") for i, call in calls),
            )
        case "user" if said.context is not None:
            return Message("user", f"{content}\n\n{text(said.context, f'{field}.context')}")
        case "user" | "system" as role:
            return Message(role, content)
        case role:
            raise BadRequest(f"{field}.role", f"must be one of {', '.join(ROLES)}", role)


def _call(call: Call, field: str) -> ToolCall:
    id = call.call_id or ""
    given = call.arguments_json if call.arguments_json is not None else call.arguments
    if not isinstance(given, str):
        return ToolCall(id, call.tool_name, json.dumps(given or {}, ensure_ascii=False))
    try:
        arguments = json.loads(given)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise BadRequest(f"{field}.arguments", "must be a JSON object", given)
    return ToolCall(id, call.tool_name, given)


def tools(defined: list[ToolDef] | None) -> tuple[Tool, ...]:
    return tuple(map(_tool, defined or ()))


def _tool(tool: ToolDef) -> Tool:
    description, argument = BUILTIN.get(tool.tool_name, ("", ""))
    parameters = tool.parameters
    if parameters is None:
        parameters = {argument: Parameter("string", required=True)} if argument else {}
    schema = {
        "type": "object",
        "properties": {name: _property(value) for name, value in parameters.items()},
        "required": [name for name, value in parameters.items() if value.required is not False],
    }
    return Tool(tool.tool_name, tool.description or description, schema)


def _property(parameter: Parameter) -> dict[str, Any]:
    """Types of Python's typing module are taken by their head: List[str] is an array. Others say nothing."""
    head = parameter.param_type.partition("[")[0].strip().lower()
    schema: dict[str, Any] = {"type": TYPES[head]} if head in TYPES else {}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def described(conversation: tuple[Message, ...], offered: tuple[Tool, ...]) -> tuple[Message, ...]:
    """The conversation with the tools' definitions where its system message has a place for them."""
    definitions = json.dumps(
        [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in offered
        ]
    )
    return tuple(
        Message("system", message.content.replace(DEFINITIONS, definitions))
        if message.role == "system"
        else message
        for message in conversation
    )
