"""Parses calls in a Python list, [f(a=1, b="x"), g()]. The calls are emitted when the list is complete."""

import ast

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.scanner import (
    Parser,
    bracketed_text,
    expect,
    identifier,
    json_text,
    next_nonspace,
    refuse,
)

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


def python_arguments(text: str) -> str:
    """The arguments (a=1, b="x") as a JSON object. Runs no code: the values must be literals."""
    try:
        call = Constants().visit(ast.parse(f"f{text}", mode="eval")).body
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        refuse()
    expect(not call.args and all(keyword.arg for keyword in call.keywords))
    return json_text(values)


class Constants(ast.NodeTransformer):
    """Replaces JSON's true, false and null, which models mix with Python's literals."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node
