"""Hearing what is told of an answer's calls: joined, and checked for what every answer must keep to."""

import json

from inference.text.telling import Piece
from inference.text.toolcalls import ToolCalls
from inference.types import CallDelta, Tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool("weather", "", CITY), Tool("now", "", {}), Tool("a.b-c", "", {}))
Told = tuple[str, list[tuple[str, dict]]]
Heard = tuple[str, list[tuple[str, str, bool]]]


def heard(told: list[Piece]) -> Heard:
    """(the text, each call's name, arguments, and whether it is done), joined from what is told."""
    calls: dict[int, tuple[str, str, str, bool]] = {}
    for delta in told:
        if isinstance(delta, CallDelta):
            id, name, arguments, done = calls.get(delta.number, (delta.id, delta.name, "", False))
            assert (id, name, done) == (delta.id, delta.name, False)
            calls[delta.number] = (id, name, arguments + delta.arguments, delta.done)
    assert list(calls) == list(range(len(calls)))
    text = "".join(piece for piece in told if isinstance(piece, str))
    return text, [call[1:] for call in calls.values()]


def listen(*pieces: str, form: str = "auto", parallel: bool = True) -> Heard:
    """What is heard of an answer that comes in these pieces."""
    calls = ToolCalls(TOOLS, form=form, parallel=parallel)
    return heard([out for piece in pieces for out in calls.feed(piece)] + calls.flush())


def read(*pieces: str, form: str = "auto") -> Told:
    """The same of an answer whose calls are complete."""
    text, calls = listen(*pieces, form=form)
    assert all(done for _, _, done in calls)
    return text, [(name, json.loads(arguments)) for name, arguments, _ in calls]


PARIS = ("weather", {"city": "Paris"})
JSON = '{"name": "weather", "parameters": {"city": "Paris"}}'
