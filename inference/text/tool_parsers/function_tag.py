"""Parsers of calls whose parameters have tags, and are no JSON: such a call is emitted once it is complete.

<function=f><parameter=a>1</parameter></function> is Qwen's format; FUNCTION_TAGS has others like it. The
arguments in Llama's <function=f>{…}</function> are JSON. GLM's format is
f<arg_key>a</arg_key><arg_value>1</arg_value>.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.json_calls import parse_arguments
from inference.text.tool_parsers.pythonic import python_value
from inference.text.tool_parsers.scanner import (
    NotAToolCall,
    Parser,
    expect,
    identifier,
    json_text,
    json_value,
    next_nonspace,
    one_of,
    special,
    until,
)
from inference.types import Tool

ARG_KEY, ARG_VALUE, ARGS_END = "<arg_key>", "<arg_value>", "</tool_call>"
ARGUMENT_STARTS = "<", special(ARG_KEY), special(ARGS_END)
CDATA = "<![CDATA[", "]]>"
# An attribute of DeepSeek's parameters: whether the value is text, and not JSON.
IS_TEXT = {' string="true"': True, ' string="false"': False}

# The type of a value other than text → its names in a JSON schema.
TYPE_NAMES: Mapping[type, frozenset[str]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    dict: frozenset({"object"}),
    list: frozenset({"array"}),
}


@dataclass(frozen=True, slots=True)
class ParameterTags:
    """The tags behind the one that starts a call.

    quote             ends the name of a function and of a parameter, before the ">" of the tag
    parameter         starts a parameter's tag
    end_of_parameter  ends a parameter
    end               ends the call
    has_cdata         <![CDATA[…]]> is the text within
    """

    quote: str
    parameter: str
    end_of_parameter: str
    end: str
    has_cdata: bool = False


QWEN = ParameterTags("", "<parameter=", "</parameter>", "</function>")
FUNCTION_TAGS: Mapping[str, ParameterTags] = {
    "<function=": QWEN,
    '<function name="': ParameterTags('"', '<param name="', "</param>", "</function>", True),  # MiniCPM
    '<invoke name="': ParameterTags('"', '<parameter name="', "</parameter>", "</invoke>"),  # MiniMax
    '<｜DSML｜invoke name="': ParameterTags(  # DeepSeek V3.2
        '"', '<｜DSML｜parameter name="', "</｜DSML｜parameter>", "</｜DSML｜invoke>"
    ),
}


def parse_function_tag(emitter: ToolCallEmitter, tags: ParameterTags = QWEN) -> Parser[None]:
    """The rest of a call after "<function="."""
    name, char = yield from identifier((yield), emitter.tools)
    expect(name in emitter.tools)
    yield from one_of(char, (tags.quote + ">",))
    char = yield from next_nonspace()
    if char == "{" and tags is QWEN:
        yield from parse_arguments(emitter, name)
        emitter.end_call()
        return
    values: dict[str, Any] = {}
    while (yield from one_of(char, (tags.parameter, tags.end))) == tags.parameter:
        key = yield from until(tags.quote or ">")
        attribute = (yield from until(">")) if tags.quote else ""
        text = yield from until(tags.end_of_parameter)
        is_text = IS_TEXT.get(attribute)
        if tags.has_cdata and text.startswith(CDATA[0]) and text.endswith(CDATA[1]):
            text, is_text = text.removeprefix(CDATA[0]).removesuffix(CDATA[1]), True
        values[key] = parse_parameter(text, key, emitter.tools[name], is_text)
        char = yield from next_nonspace()
    emitter.emit_call(name, json_text(values))


def parse_argument_pairs(first_char: str, name: str, emitter: ToolCallEmitter) -> Parser[None]:
    """GLM's keys and values of a call to `name`, and the tag that ends it."""
    values: dict[str, Any] = {}
    char = first_char
    while (yield from one_of(char, (ARG_KEY, ARGS_END))) == ARG_KEY:
        key = (yield from until("</arg_key>")).strip()
        yield from one_of((yield from next_nonspace()), (ARG_VALUE,))
        values[key] = parse_parameter((yield from until("</arg_value>")), key, emitter.tools[name])
        char = yield from next_nonspace()
    emitter.emit_call(name, json_text(values))


def parse_parameter(text: str, key: str, tool: Tool, is_text: bool | None = None) -> Any:
    """A parameter's value, of a type that the tool's schema declares: JSON, a literal of Python, or text.

    is_text: what the call itself says; None: nothing. A format that writes the value on lines of its own
    begins it with a line break; otherwise, a break at the end belongs to the value.
    """
    if text.startswith("\n"):
        text = text[1:].removesuffix("\n")
    properties = tool.parameters.get("properties")
    types = declared_types(properties.get(key)) if isinstance(properties, Mapping) else set()
    if is_text or (is_text is None and types == {"string"}):
        return text
    for read, needs_type in ((json_value, False), (python_value, True)):
        with suppress(NotAToolCall):
            value = read(text)
            fits = not types.isdisjoint(TYPE_NAMES.get(type(value), frozenset()))
            if fits or not (needs_type or "string" in types):
                return value
    return text


def declared_types(schema: Any) -> set[str]:
    """The names of the JSON types that a schema allows; empty if it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    declared = schema.get("type")
    types = {
        name for name in (declared if isinstance(declared, list) else [declared]) if isinstance(name, str)
    }
    if isinstance(choices := schema.get("enum"), list):
        types |= {"string" for choice in choices if isinstance(choice, str)}
    for key in ("anyOf", "oneOf"):
        if isinstance(schemas := schema.get(key), list):
            types = types.union(*map(declared_types, schemas))
    return types
