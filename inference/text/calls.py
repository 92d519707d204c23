"""The grammar of tool calls in a model's answer, read one character at a time.

Each rule is a coroutine: it is sent characters, raises NotACall at the first that fits no call, and returns
what it has read. Knows characters and the tools' names, not where in an answer it reads.
"""

import ast
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Rule = Generator[None, str, T]
Names = frozenset[str]

TAGS = ("<tool_call>", "<|python_tag|>", "<function=", "[TOOL_CALLS]")
CLOSINGS = ("</tool_call>", "</function>")
CLOSING = {"{": "}", "[": "]", "(": ")"}
MAX_DEPTH = 64
CONSTANTS = {"true": True, "false": False, "null": None}


class NotACall(Exception):
    """What was read is text after all."""


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is a JSON object, as text."""

    name: str
    arguments: str


# Where calls begin -------------------------------------------------------------------------------------


def tagged(head: str, tags: tuple[str, ...], names: Names) -> Rule[list[Call]]:
    """Calls behind one of `tags`, whose first character `head` is; none behind a closing tag."""
    tag = head
    while tag not in tags:
        if not any(other.startswith(tag) for other in tags):
            raise NotACall
        tag += yield
    if tag in CLOSINGS:
        return []
    if tag == "<function=":
        return [(yield from function_call(names))]
    return (yield from untagged((yield from solid()), names))


def untagged(head: str, names: Names) -> Rule[list[Call]]:
    """{"name": …} or [{"name": …}, …] or [f(a=1), …], each also behind [TOOL_CALLS]."""
    if head == "{":
        return [(yield from json_call(names))]
    if head != "[":
        raise NotACall
    head = yield from solid()
    if head == "{":
        return (yield from json_list(names))
    return (yield from python_list(head, names))


# JSON --------------------------------------------------------------------------------------------------


def json_list(names: Names) -> Rule[list[Call]]:
    """Behind its first two brackets."""
    calls = [(yield from json_call(names))]
    while (char := (yield from solid())) != "]":
        expect(char == "," and (yield from solid()) == "{")
        calls.append((yield from json_call(names)))
    return calls


def json_call(names: Names, members: Mapping[str, "Member"] | None = None) -> Rule[Call]:
    """{"name": …, "parameters": {…}} behind its bracket; refused at the first key or name that does not fit.

    `members` are the keys it may have, OUTER unless given.
    """
    allowed = OUTER if members is None else members
    found: dict[str, str] = {}
    char = ","
    while char == ",":
        expect((yield from solid()) == '"')
        key = value_of('"' + (yield from quoted('"')))
        expect(key in allowed and (yield from solid()) == ":")
        found |= yield from allowed[key]((yield from solid()), names)
        char = yield from solid()
    expect(char == "}" and found.keys() == {"name", "arguments"})
    return Call(found["name"], found["arguments"])


def function_member(head: str, names: Names) -> Rule[dict[str, str]]:
    """A name, or as in OpenAI's form {"name": …, "arguments": …}."""
    if head != "{":
        return (yield from name_member(head, names))
    inner = yield from json_call(names, INNER)
    return {"name": inner.name, "arguments": inner.arguments}


def name_member(head: str, names: Names) -> Rule[dict[str, str]]:
    expect(head == '"')
    name = value_of('"' + (yield from quoted('"')))
    expect(name in names)
    return {"name": name}


def arguments_member(head: str, names: Names) -> Rule[dict[str, str]]:
    """An object, or a string that holds one."""
    if head == '"':
        text = value_of('"' + (yield from quoted('"')))
        return {"arguments": written(value_of(text))}
    expect(head == "{")
    text = yield from enclosed("{", '"')
    expect(isinstance(value_of(text), dict))
    return {"arguments": text}


def other_member(head: str, names: Names) -> Rule[dict[str, str]]:
    expect(head == '"')
    yield from quoted('"')
    return {}


Member = Callable[[str, Names], Rule[dict[str, str]]]
INNER: Mapping[str, Member] = {
    "name": name_member,
    "parameters": arguments_member,
    "arguments": arguments_member,
}
OUTER: Mapping[str, Member] = {
    **INNER,
    "function": function_member,
    "type": other_member,
    "id": other_member,
}


# <function=f>{…}</function> ----------------------------------------------------------------------------


def function_call(names: Names) -> Rule[Call]:
    """Behind "<function="."""
    name, char = yield from word((yield), names)
    expect(char == ">" and name in names)
    if (yield from solid()) == "{":
        text = yield from enclosed("{", '"')
        expect(isinstance(value_of(text), dict))
        return Call(name, text)
    for char in "/function>":
        expect((yield) == char)
    return Call(name, "{}")


# [f(a=1, b="x"), g()] ----------------------------------------------------------------------------------


def python_list(head: str, names: Names) -> Rule[list[Call]]:
    """Behind its bracket and the first character of its first name."""
    calls: list[Call] = []
    while True:
        name, char = yield from word(head, names | {"TOOL_CALLS"})
        if name + char == "TOOL_CALLS]" and not calls:
            return (yield from untagged((yield from solid()), names))
        expect(char == "(" and name in names)
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
    return written(values)


class Constants(ast.NodeTransformer):
    """Models write JSON's true, false and null among Python's literals."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node


# Characters --------------------------------------------------------------------------------------------


def solid() -> Rule[str]:
    """The next character that is no white space."""
    while (char := (yield)).isspace():
        pass
    return char


def word(head: str, words: Names) -> Rule[tuple[str, str]]:
    """(the longest head of one of `words`, the character behind it)"""
    text, char = "", head
    while any(word.startswith(text + char) for word in words):
        text += char
        char = yield
    return text, char


def quoted(quote: str) -> Rule[str]:
    """A string's text behind its opening quote, as it is written, with the closing one."""
    text = []
    char = ""
    while char != quote:
        text.append(char := (yield))
        if char == "\\":
            text.append((yield))
    return "".join(text)


def enclosed(opening: str, quotes: str) -> Rule[str]:
    """The text from a bracket that has been read to the one that closes it."""
    text = [opening]
    closing = [CLOSING[opening]]
    while closing:
        text.append(char := (yield))
        if char in quotes:
            text.append((yield from quoted(char)))
        elif char in CLOSING:
            closing.append(CLOSING[char])
            expect(len(closing) <= MAX_DEPTH)
        elif char in ")]}":
            expect(char == closing.pop())
    return "".join(text)


def value_of(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        refuse()


def written(value: Any) -> str:
    """A JSON object; readable where it can be encoded, which half a surrogate pair cannot."""
    expect(isinstance(value, dict))
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    except (TypeError, ValueError):
        refuse()
    return text


def expect(fits: bool) -> None:
    if not fits:
        raise NotACall


def refuse(*_: object) -> NoReturn:
    raise NotACall
