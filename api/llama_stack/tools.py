"""Llama Stack's tool definitions in the server's own terms: parameters become a JSON schema."""

import json
from dataclasses import replace
from typing import Any

from api.llama_stack.bodies import Parameter, ToolDef
from inference.types import Message, Tool

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
    names = ("name", "description", "parameters")
    listed = json.dumps([{name: getattr(tool, name) for name in names} for tool in offered])
    return tuple(
        replace(message, content=message.content.replace(DEFINITIONS, listed))
        if message.role == "system"
        else message
        for message in conversation
    )
