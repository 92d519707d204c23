"""Parses calls in Python: a list [f(a=1, b="x"), g()], or Olmo's lines in a tag.

The calls are emitted when all of them are complete.
"""

import ast
from typing import Any

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.scanner import (
    Parser,
    bracketed_text,
    expect,
    identifier,
    is_special,
    json_text,
    next_nonspace,
    one_of,
    refuse,
)

LINES_END = "</function_calls>"
CONSTANTS = {"true": True, "false": False, "null": None}


def parse_python_list(name: str, char: str, emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of the list, after the first function's name and the character that follows it."""
    calls: list[tuple[str, str]] = []
    while True:
        expect(char == "(" and name in emitter.tools)
        calls.append((name, python_arguments((yield from bracketed_text("(", "\"'")))))
        if (char := (yield from next_nonspace())) == "]":
            break
        expect(char == ",")
        name, char = yield from identifier((yield from next_nonspace()), emitter.tools)
    for call in calls:
        emitter.emit_call(*call)


def parse_python_lines(emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of Olmo's <function_calls>, in which each line is a call."""
    calls: list[tuple[str, str]] = []
    while (char := (yield from next_nonspace())) != "<" and not is_special(char):
        name, char = yield from identifier(char, emitter.tools)
        expect(char == "(" and name in emitter.tools)
        calls.append((name, python_arguments((yield from bracketed_text("(", "\"'")))))
    yield from one_of(char, (LINES_END,))
    expect(bool(calls))
    for call in calls:
        emitter.emit_call(*call)


def python_arguments(text: str) -> str:
    """The arguments (a=1, b="x") as a JSON object. Runs no code: the values must be literals."""
    call = python_expression(f"f{text}")
    expect(isinstance(call, ast.Call) and not call.args and all(keyword.arg for keyword in call.keywords))
    return json_text({str(keyword.arg): literal(keyword.value) for keyword in call.keywords})


def python_value(text: str) -> Any:
    """The value of a literal, as some chat templates write objects and lists: {'a': [True, None]}."""
    return literal(python_expression(text.strip()))


def python_expression(text: str) -> Any:
    try:
        return Constants().visit(ast.parse(text, mode="eval")).body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        refuse()


def literal(expression: ast.expr) -> Any:
    try:
        return ast.literal_eval(expression)
    except (ValueError, TypeError, RecursionError, MemoryError):
        refuse()


class Constants(ast.NodeTransformer):
    """Replaces JSON's true, false and null, which models mix with Python's literals."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node
