"""Calls written as a Python list: [f(a=1, b="x"), g()]. Told when the whole list has been read."""

import ast

from inference.text.scan import Rule, enclosed, expect, json_text, refuse, solid, word
from inference.text.telling import Telling

CONSTANTS = {"true": True, "false": False, "null": None}


def python_list(name: str, char: str, told: Telling) -> Rule[None]:
    """Behind the first name, and the character behind it."""
    calls: list[tuple[str, str]] = []
    while True:
        expect(char == "(" and name in told.tools)
        calls.append((name, python_arguments((yield from enclosed("(", "\"'")))))
        if (char := (yield from solid())) == "]":
            break
        expect(char == ",")
        name, char = yield from word((yield from solid()), told.tools)
    for call in calls:
        told.whole(*call)


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
