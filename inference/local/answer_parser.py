"""AnswerParser: takes the text of one answer apart into reasoning, text and tool calls.

The reasoning comes first: only the text beside it may hold calls. Knows no markers and no syntax of calls.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference.events import CallDelta
from inference.text.reasoning.stream import ReasoningDelta, ReasoningParser, TextOrReasoning
from inference.text.tool_parsers.emitter import TextOrDelta
from inference.text.tool_parsers.stream import ToolParser


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A part of an answer."""

    text: str
    reasoning: str = ""
    call_deltas: Sequence[CallDelta] = ()


class AnswerParser:
    """Parses one answer.

    reasoning_parser  None: reasoning is part of the text
    tool_parser       None: the answer has no calls
    """

    def __init__(self, reasoning_parser: ReasoningParser | None, tool_parser: ToolParser | None) -> None:
        self._reasoning_parser = reasoning_parser
        self._tool_parser = tool_parser
        self._reasoning: list[str] = []
        self._items: list[TextOrDelta] = []

    @property
    def in_reasoning(self) -> bool:
        """Whether the text so far ends in reasoning."""
        return self._reasoning_parser is not None and self._reasoning_parser.in_reasoning

    @property
    def is_complete(self) -> bool:
        """Whether the only allowed call is complete."""
        return self._tool_parser is not None and self._tool_parser.is_complete

    def feed(self, text: str) -> None:
        if self._reasoning_parser is None:
            self._parse_calls(text)
        else:
            self._add(self._reasoning_parser.feed(text))

    def feed_special(self, name: str, text: str) -> None:
        """Process a special token such as <|python_tag|>. `text`: what the answer shows of it."""
        if self._reasoning_parser is None:
            self._parse_special(name, text)
        else:
            self._add(self._reasoning_parser.feed_special(name, text))

    def flush(self) -> None:
        """Process the end of the answer."""
        if self._reasoning_parser is not None:
            self._add(self._reasoning_parser.flush())
        if self._tool_parser is not None:
            self._items += self._tool_parser.flush()

    def take(self) -> ParsedText:
        """What has been parsed since the last time."""
        reasoning, items = self._reasoning, self._items
        self._reasoning, self._items = [], []
        text = "".join(item for item in items if isinstance(item, str))
        call_deltas = [item for item in items if isinstance(item, CallDelta)]
        return ParsedText(text, "".join(reasoning), call_deltas)

    def _add(self, outputs: Iterable[TextOrReasoning]) -> None:
        for output in outputs:
            if isinstance(output, ReasoningDelta):
                self._reasoning.append(output.text)
            elif isinstance(output, str):
                self._parse_calls(output)
            else:
                self._parse_special(output.name, output.text)

    def _parse_calls(self, text: str) -> None:
        self._items += self._tool_parser.feed(text) if self._tool_parser else [text]

    def _parse_special(self, name: str, text: str) -> None:
        self._items += self._tool_parser.feed_special(name, text) if self._tool_parser else [text]
