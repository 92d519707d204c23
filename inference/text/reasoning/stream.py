"""ReasoningParser: separates the reasoning of a streamed answer from its text.

Knows where markers count; formats.py knows the markers. A possible marker is held back until it is certain:
if it turns out to be none, it is emitted as what it is part of.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from inference.text.reasoning.formats import AnswerSection, ReasoningFormat


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of an answer's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A special token that marks no reasoning. text: what the answer shows of it"""

    name: str
    text: str


TextOrReasoning = ReasoningDelta | str | SpecialToken


class Symbol(NamedTuple):
    """A character, or a special token. name: as a marker spells it; text: what the answer shows of it"""

    name: str
    text: str
    is_special: bool = False


class ReasoningParser:
    """Finds the reasoning in one answer.

    A marker that begins with a special token counts anywhere. One in characters counts only at an opening: at
    the start of the answer, at the start of a section, and behind a section; elsewhere it is a quotation. The
    end of a section counts anywhere in it. White space around the content of a section is left out.

    section        that the prompt has opened; None: none
    call_openings  starts of tool calls, which end reasoning that the model has not closed
    """

    def __init__(
        self,
        reasoning_format: ReasoningFormat,
        section: AnswerSection | None = None,
        call_openings: Iterable[str] = (),
    ) -> None:
        sections = reasoning_format.all_sections
        self._section_of = {start: each for each in sections for start in each.starts}
        self._starts = reasoning_format.starts
        self._all_markers = reasoning_format.markers
        self._call_openings = tuple(call_openings)
        self._pending: list[Symbol] = []
        self._outputs: list[TextOrReasoning] = []
        self._space = ""  # white space that is held back: the end of a section leaves it out
        self._has_sections = section is not None
        self._enter(section)

    @property
    def in_reasoning(self) -> bool:
        return self._section is not None and self._section.is_reasoning

    def feed(self, text: str) -> list[TextOrReasoning]:
        """What is certain by now."""
        if not (self._pending or self._at_opening) and self._end_starts.isdisjoint(text):
            self._emit_text(text)
            return self._drain()
        for char in text:
            self._feed_symbol(Symbol(char, char))
        return self._drain()

    def feed_special(self, name: str, text: str = "") -> list[TextOrReasoning]:
        """Process a special token such as <|channel|>. `text`: what the answer shows of it."""
        self._feed_symbol(Symbol(name, text, is_special=True))
        return self._drain()

    def flush(self) -> list[TextOrReasoning]:
        """What was held back."""
        self._resolve(is_last=True)
        if self._space and not self.in_reasoning:
            self._outputs.append(self._space)
        self._space = ""
        return self._drain()

    def skip(self, text: str) -> None:
        """Process a text that the client has: the answer continues it."""
        self.feed(text)
        self._pending.clear()
        self._space = ""

    def _enter(self, section: AnswerSection | None) -> None:
        """Begin a section, or what follows one."""
        self._section = section
        self._at_opening = True
        self._space = ""
        ends = section.ends if section else ()
        self._ends = (*ends, *self._call_openings) if self.in_reasoning else ends
        self._end_starts = frozenset(end[0] for end in self._ends)

    def _feed_symbol(self, symbol: Symbol) -> None:
        self._pending.append(symbol)
        self._resolve()

    def _resolve(self, *, is_last: bool = False) -> None:
        """Process the pending symbols as far as they are certain. is_last: no symbol follows them."""
        while self._pending:
            name = "".join(symbol.name for symbol in self._pending)
            markers = self._markers(self._pending[0])
            if not is_last and any(len(each) > len(name) and each.startswith(name) for each in markers):
                return
            if marker := max((each for each in markers if name.startswith(each)), key=len, default=""):
                self._take_marker(marker)
            else:
                self._emit(self._pending.pop(0))

    def _markers(self, first: Symbol) -> tuple[str, ...]:
        """The markers that a symbol may begin."""
        if self._at_opening:
            return (*self._ends, *self._all_markers)
        return (*self._ends, *self._starts) if first.is_special else self._ends

    def _take_marker(self, marker: str) -> None:
        """Process a marker that the pending symbols start with. A call's opening is part of the text."""
        symbols: list[Symbol] = []
        while len(marker) > sum(len(symbol.name) for symbol in symbols):
            symbols.append(self._pending.pop(0))
        self._has_sections = True
        if marker not in self._starts:
            self._enter(None)
        elif marker in self._section_of:
            self._enter(self._section_of[marker])
        if marker in self._call_openings:
            for symbol in symbols:
                self._emit(symbol)

    def _emit(self, symbol: Symbol) -> None:
        """Emit a symbol that marks nothing."""
        if not symbol.is_special or self.in_reasoning:
            self._emit_text(symbol.text)
            return
        if self._space:
            self._outputs.append(self._space)
        self._outputs.append(SpecialToken(symbol.name, symbol.text))
        self._space, self._at_opening = "", False

    def _emit_text(self, text: str) -> None:
        """Emit text, without the white space at the start of a section or behind it; hold that at its end."""
        text = self._space + text
        if self._at_opening and self._has_sections:
            text = text.lstrip()
        content = text.rstrip() if self._section or self._at_opening else text
        if content:
            content = content if self._section else text
            self._outputs.append(ReasoningDelta(content) if self.in_reasoning else content)
            self._at_opening = False
        self._space = text[len(content) :]

    def _drain(self) -> list[TextOrReasoning]:
        outputs, self._outputs = self._outputs, []
        return outputs
