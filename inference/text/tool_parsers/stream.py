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
from inference.text.tool_parsers.scanner import NotAToolCall, Parser, is_special, special
from inference.types import Tool

CLOSING_STARTS = frozenset(tag[0] for tag in CLOSING_TAGS)


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
        self._tag_starts = frozenset(start for tag in self._syntax.tags for start in (tag[0], special(tag)))
        self._is_forced = is_forced
        self._at_opening = True
        self._held_texts: list[str] = []
        self._parser: Parser[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the only allowed call is complete."""
        return self._emitter.is_complete

    def feed(self, text: str) -> list[TextOrDelta]:
        """The text and call deltas that are certain by now."""
        if self._parser is None and not self._at_opening and self._tag_starts.isdisjoint(text):
            return [text] if text else []
        for char in text:
            if self._emitter.is_complete:
                break
            self._feed_item(char, char)
        return self._emitter.drain()

    def feed_special(self, name: str, text: str = "") -> list[TextOrDelta]:
        """Process a special token such as <|python_tag|>. `text`: what the answer shows of it."""
        self._feed_item(special(name), text)
        return self._emitter.drain()

    def flush(self) -> list[TextOrDelta]:
        """The text that was held back, without white space after the last call."""
        if self._is_forced:
            self._held_texts.clear()
        self._release_unfinished()
        return self._emitter.drain()

    def _set_shapes(self, shapes: CallShapes) -> None:
        """Set the shapes that a call at the next opening may have."""
        self._shapes = shapes
        self._opening_chars = opening_chars(shapes, self._emitter.tools)

    def _release_unfinished(self) -> None:
        if self._parser is None and self._emitter.call_number:
            self._held_texts.clear()
        self._release()

    def _feed_item(self, item: str, text: str) -> None:
        """Process a character, or the item of a special token, whose text is `text`."""
        if self._parser is None:
            self._start_call(item, text)
            return
        self._emitter.has_progress = False
        try:
            self._parser.send(item)
        except NotAToolCall:
            self._release()
            self._start_call(item, text)
        except StopIteration:
            self._held_texts.clear()
            self._parser = None
            self._at_opening = True
        else:
            self._held_texts.append(text)
            if self._emitter.has_progress:
                self._held_texts.clear()

    def _start_call(self, item: str, text: str) -> None:
        """Process an item outside a call: the start of a call, a separator before one, or text.

        A special token may start a call, and calls after it have the shapes of tagged ones.
        """
        if is_special(item):
            self._release_unfinished()
            self._at_opening = True
            self._set_shapes(self._syntax.tagged_shapes)
        self._held_texts.append(text)
        after_call = self._at_opening and self._emitter.call_number > 0
        if self._at_opening and item in self._opening_chars:
            self._parser = parse_untagged(item, self._shapes, self._syntax, self._emitter)
            next(self._parser)
        elif item in self._tag_starts or (after_call and item in CLOSING_STARTS):
            tags = self._syntax.tags + (CLOSING_TAGS if after_call else ())
            self._parser = parse_tagged(item, tags, self._syntax, self._emitter)
            next(self._parser)
        elif not self._at_opening or not (
            item.isspace() or is_special(item) or (item in ";," and after_call)
        ):
            self._release()

    def _release(self) -> None:
        if self._emitter.is_open:
            self._emitter.abandon_call()
        self._emitter.emit_text("".join(self._held_texts))
        self._held_texts.clear()
        self._parser = None
        self._at_opening = False
