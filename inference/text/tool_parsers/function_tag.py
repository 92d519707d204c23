"""Parsers of calls in a tag with the function's name.

Llama's format is <function=f>{…}</function>. Qwen 3's is <function=f><parameter=a>1</parameter></function>,
whose parameters are not JSON: the call is emitted once it is complete.
"""

from collections.abc import Mapping
from typing import Any

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.json_calls import parse_arguments
from inference.text.tool_parsers.scanner import (
    NotAToolCall,
    Parser,
    expect,
    expect_text,
    identifier,
    json_text,
    json_value,
    next_nonspace,
    until,
)
from inference.types import Tool


def parse_function_tag(emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of a call after "<function="."""
    name, char = yield from identifier((yield), emitter.tools)
    expect(char == ">" and name in emitter.tools)
    if (char := (yield from next_nonspace())) == "{":
        yield from parse_arguments(emitter, name)
        emitter.end_call()
        return
    expect(char == "<")
    values: dict[str, Any] = {}
    while (char := (yield)) == "p":
        yield from expect_text("arameter=")
        key = yield from until(">")
        values[key] = parse_parameter((yield from until("</parameter>")), key, emitter.tools[name])
        expect((yield from next_nonspace()) == "<")
    expect(char == "/")
    yield from expect_text("function>")
    emitter.emit_call(name, json_text(values))


def parse_parameter(text: str, key: str, tool: Tool) -> Any:
    """A parameter's value: parsed as JSON, unless the schema declares a string or the text is not JSON."""
    text = text.removeprefix("\n").removesuffix("\n")
    properties = tool.parameters.get("properties")
    parameter_schema = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(parameter_schema, Mapping) and parameter_schema.get("type") == "string":
        return text
    try:
        return json_value(text)
    except NotAToolCall:
        return text
