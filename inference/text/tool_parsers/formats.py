"""The tool call formats of models: which tags and characters start a call, and where.

Knows which parser reads which shape of a call; parsed calls go to a ToolCallEmitter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.function_tag import parse_function_tag
from inference.text.tool_parsers.json_calls import parse_json_call, parse_json_list, parse_named_call
from inference.text.tool_parsers.pythonic import parse_python_list
from inference.text.tool_parsers.scanner import (
    NotAToolCall,
    Parser,
    expect,
    expect_text,
    identifier,
    next_nonspace,
)

CallFormat = Literal["llama", "hermes", "mistral", "python"]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
CallShape = Literal["object", "list", "python", "function", "named"]
CallShapes = frozenset[CallShape]

FUNCTION, TOOL_CALLS = "<function=", "[TOOL_CALLS]"
CLOSING_TAGS = ("</tool_call>", "</function>")
JSON_SHAPES: CallShapes = frozenset({"object", "list"})
ALL_SHAPES: CallShapes = JSON_SHAPES | {"python", "function", "named"}


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """The syntax of a format.

    tags             texts that start a call anywhere
    untagged_shapes  shapes of a call without a tag, at an opening of the answer (see ToolParser)
    tagged_shapes    shapes of a call after a tag or a special token
    """

    tags: tuple[str, ...]
    untagged_shapes: CallShapes
    tagged_shapes: CallShapes


CALL_SYNTAXES: Mapping[str, CallSyntax] = {
    "auto": CallSyntax(("<tool_call>", "<|python_tag|>", FUNCTION, TOOL_CALLS), ALL_SHAPES, ALL_SHAPES),
    "llama": CallSyntax(("<|python_tag|>", FUNCTION), JSON_SHAPES, JSON_SHAPES),
    "hermes": CallSyntax(("<tool_call>", FUNCTION), frozenset(), frozenset({"object", "function"})),
    "mistral": CallSyntax((TOOL_CALLS,), frozenset(), frozenset({"list", "named"})),
    "python": CallSyntax(("<|python_tag|>",), frozenset({"python"}), frozenset({"python"})),
}
# Markers in a chat template and the formats that they imply; the first match decides.
TEMPLATE_MARKERS: Mapping[str, CallFormat] = {
    TOOL_CALLS: "mistral",
    "<tool_call>": "hermes",
    "<|python_tag|>": "llama",
    "<|python_start|>": "python",
}


def detect_format(template: str) -> CallFormat:
    """The format of a model with this chat template."""
    return next(
        (call_format for marker, call_format in TEMPLATE_MARKERS.items() if marker in template), "llama"
    )


def opening_chars(shapes: CallShapes, names: Iterable[str]) -> frozenset[str]:
    """The first characters of calls of these shapes; calls in a function tag start with their tag instead."""
    char_of_shape = {"object": "{", "list": "[", "python": "["}
    chars = {char_of_shape[shape] for shape in shapes if shape in char_of_shape}
    return frozenset(chars.union(name[:1] for name in names) if "named" in shapes else chars)


def parse_tagged(
    first_char: str, tags: Iterable[str], syntax: CallSyntax, emitter: ToolCallEmitter
) -> Parser[None]:
    """One of `tags`, which starts with first_char, and the calls after it; no calls after a closing tag."""
    tag, tags = first_char, tuple(tags)
    while tag not in tags:
        if not any(other.startswith(tag) for other in tags):
            raise NotAToolCall
        tag += yield
    if tag == FUNCTION:
        yield from parse_function_tag(emitter)
    elif tag not in CLOSING_TAGS:
        yield from parse_untagged(
            (yield from next_nonspace()), syntax.tagged_shapes, syntax, emitter, certain=True
        )


def parse_untagged(
    first_char: str,
    shapes: CallShapes,
    syntax: CallSyntax,
    emitter: ToolCallEmitter,
    *,
    certain: bool = False,
) -> Parser[None]:
    """{"name": …} · [{"name": …}, …] · [f(a=1), …] · <function=f> · f{…}; also calls after [TOOL_CALLS]."""
    if first_char == "{":
        expect("object" in shapes)
        yield from parse_json_call(emitter)
    elif first_char == "<":
        expect("function" in shapes)
        yield from expect_text("function=")
        yield from parse_function_tag(emitter)
    elif first_char == "[":
        yield from parse_bracketed(shapes, syntax, emitter)
    else:
        expect("named" in shapes)
        yield from parse_named_call(first_char, emitter, is_certain=certain)


def parse_bracketed(shapes: CallShapes, syntax: CallSyntax, emitter: ToolCallEmitter) -> Parser[None]:
    """The text after an opening bracket: a list of calls, or TOOL_CALLS] and its calls."""
    if (first_char := (yield from next_nonspace())) == "{":
        expect("list" in shapes)
        yield from parse_json_list(emitter)
        return
    name, char = yield from identifier(first_char, (*emitter.tools, "TOOL_CALLS"))
    if name + char == "TOOL_CALLS]":
        expect(TOOL_CALLS in syntax.tags)
        yield from parse_untagged(
            (yield from next_nonspace()), syntax.tagged_shapes, syntax, emitter, certain=True
        )
    else:
        expect("python" in shapes)
        yield from parse_python_list(name, char, emitter)
