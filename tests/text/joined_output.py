"""The text and the calls of an answer, joined from a parser's output and checked against its guarantees."""

import json

from inference.events import CallDelta
from inference.text.tool_parsers.emitter import TextOrDelta
from inference.text.tool_parsers.stream import ToolParser
from inference.types import Tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool("weather", "", CITY), Tool("now", "", {}), Tool("a.b-c", "", {}))
TextAndCalls = tuple[str, list[tuple[str, dict]]]
TextAndDeltas = tuple[str, list[tuple[str, str, bool]]]


def join_items(items: list[TextOrDelta]) -> TextAndDeltas:
    """The text, and each call's name, arguments, and whether it is done, joined from the parser's output."""
    calls: dict[int, tuple[str, str, str, bool]] = {}
    for delta in items:
        if isinstance(delta, CallDelta):
            id, name, arguments, done = calls.get(delta.call_index, (delta.id, delta.name, "", False))
            assert (id, name, done) == (delta.id, delta.name, False)
            calls[delta.call_index] = (id, name, arguments + delta.arguments, delta.done)
    assert list(calls) == list(range(len(calls)))
    text = "".join(item for item in items if isinstance(item, str))
    return text, [call[1:] for call in calls.values()]


def parse(*chunks: str, tool_format: str = "auto", parallel: bool = True) -> TextAndDeltas:
    """What the parser makes of an answer that arrives in these chunks."""
    calls = ToolParser(TOOLS, call_format=tool_format, parallel=parallel)
    return join_items([out for chunk in chunks for out in calls.feed(chunk)] + calls.flush())


def parse_complete(*chunks: str, tool_format: str = "auto") -> TextAndCalls:
    """The same for an answer whose calls are complete."""
    text, calls = parse(*chunks, tool_format=tool_format)
    assert all(done for _, _, done in calls)
    return text, [(name, json.loads(arguments)) for name, arguments, _ in calls]


PARIS = ("weather", {"city": "Paris"})
JSON = '{"name": "weather", "parameters": {"city": "Paris"}}'
