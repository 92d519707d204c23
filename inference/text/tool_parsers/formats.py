"""The tool call formats of models: which tags and characters start a call, and where.

Knows which parser reads which shape of a call; parsed calls go to a ToolCallEmitter.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from inference.text.tool_parsers.call_headers import (
    HARMONY,
    HEADERS,
    RECIPIENT,
    parse_deepseek_call,
    parse_headed_call,
)
from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.function_tag import (
    ARGUMENT_STARTS,
    FUNCTION_TAGS,
    parse_argument_pairs,
    parse_function_tag,
)
from inference.text.tool_parsers.gemma import parse_gemma_call
from inference.text.tool_parsers.json_calls import (
    parse_json_call,
    parse_json_list,
    parse_keyed_calls,
    parse_named_call,
)
from inference.text.tool_parsers.pythonic import parse_python_lines, parse_python_list
from inference.text.tool_parsers.scanner import (
    Parser,
    expect,
    identifier,
    is_special,
    next_nonspace,
    one_of,
)

CallFormat = Literal["llama", "hermes", "mistral", "python"]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
CallShape = Literal["object", "list", "python", "named", "recipient"]
CallShapes = frozenset[CallShape]

FUNCTION, TOOL_CALLS = "<function=", "[TOOL_CALLS]"
# Tags that only one syntax follows, and its parser.
TAG_PARSERS: Mapping[str, Callable[[ToolCallEmitter], Parser[None]]] = {
    **{tag: partial(parse_function_tag, tags=tags) for tag, tags in FUNCTION_TAGS.items()},
    **{tag: partial(parse_headed_call, end=end, pattern=pattern) for tag, (end, pattern) in HEADERS.items()},
    "<｜tool▁call▁begin｜>": parse_deepseek_call,
    "<|tool_call>": parse_gemma_call,
    "<|tools_prefix|>": parse_keyed_calls,
    "<function_calls>": parse_python_lines,
}
# Tags that calls of any shape, or another tag, follow → the tag behind them, if any.
WRAPPERS: Mapping[str, str] = {
    "<tool_call>": "</tool_call>",
    "<|python_tag|>": "",
    TOOL_CALLS: "",
    "<tool_calls>": "</tool_calls>",
    "<TOOLCALL>": "</TOOLCALL>",
    "<|tool_call|>": "<|/tool_call|>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|START_ACTION|>": "<|END_ACTION|>",
    "<seed:tool_call>": "</seed:tool_call>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<longcat_tool_call>": "</longcat_tool_call>",
    "<|tool_calls|>": "",
    "<|function_call|>": "",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
    "<｜DSML｜function_calls>": "</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>": "</｜DSML｜tool_calls>",
}
CLOSING_TAGS = (
    *filter(None, WRAPPERS.values()),
    "</function>",
    "<tool_call|>",
    "<|tool_call:end|>",
    "<|tools_suffix|>",
    "<｜tool▁call▁end｜>",
)
MAX_WRAPPERS = 3  # one inside the other
JSON_SHAPES: CallShapes = frozenset({"object", "list"})
ALL_SHAPES: CallShapes = JSON_SHAPES | {"python", "named", "recipient"}


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
    "auto": CallSyntax((*WRAPPERS, *TAG_PARSERS), ALL_SHAPES, ALL_SHAPES),
    "llama": CallSyntax(("<|python_tag|>", FUNCTION), JSON_SHAPES, JSON_SHAPES),
    "hermes": CallSyntax(("<tool_call>", FUNCTION), frozenset(), frozenset({"object"})),
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
    """The first characters of calls of these shapes."""
    char_of_shape = {"object": "{", "list": "[", "python": "[", "recipient": RECIPIENT[0]}
    chars = {char_of_shape[shape] for shape in shapes if shape in char_of_shape}
    return frozenset(chars.union(name[:1] for name in names) if "named" in shapes else chars)


def parse_tagged(
    first_char: str, tags: Iterable[str], syntax: CallSyntax, emitter: ToolCallEmitter
) -> Parser[None]:
    """One of `tags`, which starts with first_char, and the calls after it; no calls after a closing tag."""
    tag = yield from one_of(first_char, tuple(tags))
    for _ in range(MAX_WRAPPERS):
        if tag not in WRAPPERS:
            break
        if (char := (yield from next_nonspace())) != "<" and not is_special(char):
            yield from parse_untagged(char, syntax.tagged_shapes, syntax, emitter, certain=True)
            return
        tag = yield from one_of(char, syntax.tags)
    if tag not in CLOSING_TAGS:
        expect(tag in TAG_PARSERS)
        yield from TAG_PARSERS[tag](emitter)


def parse_untagged(
    first_char: str,
    shapes: CallShapes,
    syntax: CallSyntax,
    emitter: ToolCallEmitter,
    *,
    certain: bool = False,
) -> Parser[None]:
    """{"name": …} · [{"name": …}, …] · [f(a=1), …] · f{…} · f<arg_key> · to=f; also after [TOOL_CALLS]."""
    if first_char == "{":
        expect("object" in shapes)
        yield from parse_json_call(emitter)
    elif first_char == "[":
        yield from parse_bracketed(shapes, syntax, emitter, certain=certain)
    else:
        recipients = [RECIPIENT] if "recipient" in shapes else []
        name, char = yield from identifier(first_char, [*emitter.tools, *recipients])
        if name in recipients:
            yield from parse_headed_call(emitter, *HARMONY, header=name + char)
            return
        expect("named" in shapes and name in emitter.tools)
        if certain and char.isspace():
            char = yield from next_nonspace()
        if certain and char in ARGUMENT_STARTS:
            yield from parse_argument_pairs(char, name, emitter)
        else:
            yield from parse_named_call(name, char, emitter, is_certain=certain)


def parse_bracketed(
    shapes: CallShapes, syntax: CallSyntax, emitter: ToolCallEmitter, *, certain: bool
) -> Parser[None]:
    """The text after an opening bracket: a list of calls, or TOOL_CALLS] and its calls."""
    if (first_char := (yield from next_nonspace())) == "{":
        expect("list" in shapes)
        yield from parse_json_list(emitter)
        return
    name, char = yield from identifier(first_char, (*emitter.tools, "TOOL_CALLS"))
    if name + char == "TOOL_CALLS]":
        expect(TOOL_CALLS in syntax.tags and not certain)
        yield from parse_untagged(
            (yield from next_nonspace()), syntax.tagged_shapes, syntax, emitter, certain=True
        )
    else:
        expect("python" in shapes)
        yield from parse_python_list(name, char, emitter)
