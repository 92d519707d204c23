"""The formats in which models write tool calls, as rules over characters.

Knows what a call looks like and the tools there are, not where in an answer it reads.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inference.text.scan import (
    MARK,
    NotACall,
    Rule,
    enclosed,
    exactly,
    expect,
    json_object,
    json_string,
    json_text,
    json_value,
    quoted,
    refuse,
    solid,
    until,
    word,
)
from inference.types import Tool

Tools = Mapping[str, Tool]

TAGS = ("<tool_call>", "<|python_tag|>", "<function=", "[TOOL_CALLS]")
CLOSINGS = ("</tool_call>", "</function>")
CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is a JSON object, as text."""

    name: str
    arguments: str


def tagged(head: str, tags: tuple[str, ...], tools: Tools) -> Rule[list[Call]]:
    """Calls behind one of `tags`, whose first character `head` is; none behind a closing tag."""
    tag = head
    while tag not in tags:
        if not any(other.startswith(tag) for other in tags):
            raise NotACall
        tag += yield
    if tag in CLOSINGS:
        return []
    if tag == "<function=":
        return [(yield from function_call(tools))]
    return (yield from untagged((yield from solid()), tools))


def untagged(head: str, tools: Tools) -> Rule[list[Call]]:
    """{"name": …} · [{"name": …}, …] · [f(a=1), …] · <function=f> · f{…}; also lists behind [TOOL_CALLS]."""
    if head == "{":
        return [(yield from json_call(tools, OUTER))]
    if head == "<":
        yield from exactly("function=")
        return [(yield from function_call(tools))]
    if head != "[":
        return [(yield from named_call(head, tools))]
    head = yield from solid()
    if head == "{":
        return (yield from json_list(tools))
    return (yield from python_list(head, tools))


# {"name": "f", "parameters": {…}} ----------------------------------------------------------------------


def json_list(tools: Tools) -> Rule[list[Call]]:
    """Behind its first two brackets."""
    calls = [(yield from json_call(tools, OUTER))]
    while (char := (yield from solid())) != "]":
        expect(char == "," and (yield from solid()) == "{")
        calls.append((yield from json_call(tools, OUTER)))
    return calls


def json_call(tools: Tools, members: Mapping[str, "Member"]) -> Rule[Call]:
    """Behind its bracket; refused at the first key or name that does not fit."""
    found: dict[str, str] = {}
    char = ","
    while char == ",":
        expect((yield from solid()) == '"')
        key = yield from json_string()
        expect(key in members and (yield from solid()) == ":")
        found |= yield from members[key]((yield from solid()), tools)
        char = yield from solid()
    expect(char == "}" and found.keys() == {"name", "arguments"})
    return Call(found["name"], found["arguments"])


def function_member(head: str, tools: Tools) -> Rule[dict[str, str]]:
    """A name, or as in OpenAI's form {"name": …, "arguments": …}."""
    if head != "{":
        return (yield from name_member(head, tools))
    inner = yield from json_call(tools, INNER)
    return {"name": inner.name, "arguments": inner.arguments}


def name_member(head: str, tools: Tools) -> Rule[dict[str, str]]:
    expect(head == '"')
    name = yield from json_string()
    expect(name in tools)
    return {"name": name}


def arguments_member(head: str, tools: Tools) -> Rule[dict[str, str]]:
    """An object, or a string that holds one."""
    if head == '"':
        return {"arguments": json_text(json_value((yield from json_string())))}
    expect(head == "{")
    return {"arguments": (yield from json_object())}


def other_member(head: str, tools: Tools) -> Rule[dict[str, str]]:
    expect(head == '"')
    yield from quoted('"')
    return {}


Member = Callable[[str, Tools], Rule[dict[str, str]]]
INNER: Mapping[str, Member] = {
    "name": name_member,
    "parameters": arguments_member,
    "arguments": arguments_member,
}
OUTER: Mapping[str, Member] = {
    **INNER,
    "function": function_member,
    "tool_name": name_member,
    "type": other_member,
    "id": other_member,
    "tool_call_id": other_member,
}


# f{…}, as Mistral's [TOOL_CALLS]f[ARGS]{…} -------------------------------------------------------------


def named_call(head: str, tools: Tools) -> Rule[Call]:
    name, char = yield from word(head, tools)
    expect(name in tools)
    if char == "[":
        yield from exactly("ARGS]")
    if char in ("[", MARK):
        char = yield from solid()
    expect(char == "{")
    return Call(name, (yield from json_object()))


# <function=f>{…}</function>, and Qwen 3's <function=f><parameter=a>1</parameter></function> -------------


def function_call(tools: Tools) -> Rule[Call]:
    """Behind "<function="."""
    name, char = yield from word((yield), tools)
    expect(char == ">" and name in tools)
    if (char := (yield from solid())) == "{":
        return Call(name, (yield from json_object()))
    expect(char == "<")
    values: dict[str, Any] = {}
    while (char := (yield)) == "p":
        yield from exactly("arameter=")
        key = yield from until(">")
        values[key] = typed((yield from until("</parameter>")), key, tools[name])
        expect((yield from solid()) == "<")
    expect(char == "/")
    yield from exactly("function>")
    return Call(name, json_text(values))


def typed(text: str, key: str, tool: Tool) -> Any:
    """A parameter's value: what its text says as JSON, if it does and the schema does not want a string."""
    text = text.removeprefix("\n").removesuffix("\n")
    properties = tool.parameters.get("properties")
    wanted = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(wanted, Mapping) and wanted.get("type") == "string":
        return text
    try:
        return json_value(text)
    except NotACall:
        return text


# [f(a=1, b="x"), g()] ----------------------------------------------------------------------------------


def python_list(head: str, tools: Tools) -> Rule[list[Call]]:
    """Behind its bracket and the first character of its first name."""
    calls: list[Call] = []
    while True:
        name, char = yield from word(head, (*tools, "TOOL_CALLS"))
        if name + char == "TOOL_CALLS]" and not calls:
            return (yield from untagged((yield from solid()), tools))
        expect(char == "(" and name in tools)
        calls.append(Call(name, python_arguments((yield from enclosed("(", "\"'")))))
        if (char := (yield from solid())) == "]":
            return calls
        expect(char == ",")
        head = yield from solid()


def python_arguments(text: str) -> str:
    """(a=1, b="x") as a JSON object. Nothing is run: the values are literals."""
    try:
        call = Constants().visit(ast.parse(f"f{text}", mode="eval")).body
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        refuse()
    expect(not call.args and all(keyword.arg for keyword in call.keywords))
    return json_text(values)


class Constants(ast.NodeTransformer):
    """Models write JSON's true, false and null among Python's literals."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node
