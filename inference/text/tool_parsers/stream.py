"""ToolParser: finds the tool calls in a streamed answer. All other text passes without delay.

Knows where calls may start; formats.py knows their syntax. A possible call is held back until it is certain;
if it turns out not to be a call, it is emitted as text. A certain call is streamed.
"""

from collections.abc import Iterable

from inference.text.tool_parsers.emitter import TextOrDelta, ToolCallEmitter
from inference.text.tool_parsers.formats import (
    CALL_SYNTAXES,
    CLOSING_TAGS,
    CallShapes,
    opening_chars,
    parse_tagged,
    parse_untagged,
)
from inference.text.tool_parsers.scanner import SPECIAL_TOKEN, NotAToolCall, Parser
from inference.types import Tool


class ToolParser:
    """Finds calls to `tools` in the answer `index`, in one format ("auto": in every format).

    A call with a tag may start anywhere. A call without a tag starts only at an opening: at the start of the
    answer, after a call, or after a special token.

    parallel   allow several calls; False: nothing is emitted after the first one
    is_forced  the answer holds only calls: what is held back at its end is no text, as in OpenAI's API
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        index: int = 0,
        call_format: str = "auto",
        *,
        parallel: bool = True,
        is_forced: bool = False,
    ) -> None:
        self._emitter = ToolCallEmitter(tools, index, parallel=parallel)
        self._syntax = CALL_SYNTAXES[call_format]
        self._set_shapes(self._syntax.untagged_shapes)
        self._tag_chars = frozenset(tag[0] for tag in self._syntax.tags)
        self._is_forced = is_forced
        self._at_opening = True
        self._held_chars: list[str] = []
        self._parser: Parser[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the only allowed call is complete."""
        return self._emitter.is_complete

    def feed(self, text: str) -> list[TextOrDelta]:
        """The text and call deltas that are certain by now."""
        if self._parser is None and not self._at_opening and self._tag_chars.isdisjoint(text):
            return [text] if text else []
        for char in text:
            if self._emitter.is_complete:
                break
            self._feed_char(char)
        return self._emitter.drain()

    def feed_special(self, name: str = "") -> list[TextOrDelta]:
        """Process a special token such as <|python_tag|>. `name` is its text in the answer, or empty."""
        if self._parser is not None:
            try:
                self._parser.send(SPECIAL_TOKEN)
            except NotAToolCall:
                pass
            else:
                return []
        self._release_unfinished()
        self._at_opening = True
        self._set_shapes(self._syntax.tagged_shapes)
        self._held_chars += [name] if name else []
        return self._emitter.drain()

    def flush(self) -> list[TextOrDelta]:
        """The text that was held back, without white space after the last call."""
        if self._is_forced:
            self._held_chars.clear()
        self._release_unfinished()
        return self._emitter.drain()

    def _set_shapes(self, shapes: CallShapes) -> None:
        """Set the shapes that a call at the next opening may have."""
        self._shapes = shapes
        self._opening_chars = opening_chars(shapes, self._emitter.tools)

    def _release_unfinished(self) -> None:
        if self._parser is None and self._emitter.call_number:
            self._held_chars.clear()
        self._release()

    def _feed_char(self, char: str) -> None:
        if self._parser is None:
            self._start_call(char)
            return
        self._emitter.has_progress = False
        try:
            self._parser.send(char)
        except NotAToolCall:
            self._release()
            self._start_call(char)
        except StopIteration:
            self._held_chars.clear()
            self._parser = None
            self._at_opening = True
        else:
            self._held_chars.append(char)
            if self._emitter.has_progress:
                self._held_chars.clear()

    def _start_call(self, char: str) -> None:
        """Process a character outside a call: the start of a call, a separator before one, or text."""
        self._held_chars.append(char)
        if self._at_opening and char in self._opening_chars:
            self._parser = parse_untagged(char, self._shapes, self._syntax, self._emitter)
            next(self._parser)
        elif char in self._tag_chars or (char == "<" and self._at_opening and self._emitter.call_number):
            closing_tags = CLOSING_TAGS if self._at_opening and self._emitter.call_number else ()
            self._parser = parse_tagged(char, self._syntax.tags + closing_tags, self._syntax, self._emitter)
            next(self._parser)
        elif not (self._at_opening and (char.isspace() or (char in ";," and self._emitter.call_number))):
            self._release()

    def _release(self) -> None:
        if self._emitter.is_open:
            self._emitter.abandon_call()
        self._emitter.emit_text("".join(self._held_chars))
        self._held_chars.clear()
        self._parser = None
        self._at_opening = False
