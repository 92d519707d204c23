"""Parsers of calls whose name stands in a header, in front of arguments in JSON.

Kimi, gpt-oss, Solar and DeepSeek write such calls: functions.f:0<|tool_call_argument_begin|>{…}. Their tags
are special tokens in some tokenizers, and text in others.
"""

import re
from collections.abc import Mapping

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.json_calls import parse_arguments
from inference.text.tool_parsers.scanner import SPECIAL, Parser, expect, expect_text, next_nonspace, until

MAX_HEADER = 256  # characters
MESSAGE, RECIPIENT = "<|message|>", "to="
HARMONY = MESSAGE, re.compile(r"(?:^| )to=(?:functions\.)?([^\s<]+)")
# The tag that starts a call → the tag that ends its header, and the name in the header.
HEADERS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "<|tool_call_begin|>": (
        "<|tool_call_argument_begin|>",
        re.compile(r"^\s*(?:functions\.)?(.+?)(?::\d+)?\s*$"),
    ),
    "<|tool_call:begin|>": ("<|tool_call:args|>", re.compile(r"<\|tool_call:name\|>(.+)$")),
    "<|channel|>": HARMONY,
    "<|start|>": HARMONY,
}
SEPARATOR, FENCE = "<｜tool▁sep｜>", "```"


def parse_headed_call(
    emitter: ToolCallEmitter, end: str, pattern: re.Pattern[str], header: str = ""
) -> Parser[None]:
    """The header, which begins with `header`, up to the tag `end`, and the arguments."""
    while not header.endswith(end):
        expect(len(header) <= MAX_HEADER)
        header += (yield).removeprefix(SPECIAL)
    match = pattern.search(header.removesuffix(end))
    name = match[1] if match else ""
    expect(name in emitter.tools)
    yield from parse_json_arguments(emitter, name)


def parse_deepseek_call(emitter: ToolCallEmitter) -> Parser[None]:
    r"""f<｜tool▁sep｜>{…}, or DeepSeek R1's function<｜tool▁sep｜>f\n```json\n{…}\n```."""
    name = (yield from until(SEPARATOR)).strip()
    if name in emitter.tools:
        yield from parse_json_arguments(emitter, name)
        return
    expect(name == "function")
    name = (yield from until("\n")).strip()
    expect(name in emitter.tools)
    yield from expect_text(f"{FENCE}json")
    yield from parse_json_arguments(emitter, name)
    expect((yield from next_nonspace()) == FENCE[0])
    yield from expect_text(FENCE[1:])


def parse_json_arguments(emitter: ToolCallEmitter, name: str) -> Parser[None]:
    expect((yield from next_nonspace()) == "{")
    yield from parse_arguments(emitter, name)
    emitter.end_call()
