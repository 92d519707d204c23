"""Tool calls found in an answer as it comes; everything else passes as text, at once.

Knows where calls may begin; calls.py knows what they look like. What may yet turn out to be text is held
back, and nothing of it is lost; a call that has been begun is told as it comes.
"""

from collections.abc import Iterable

from inference.text.calls import CLOSINGS, FORMATS, Forms, bare, heads, tagged
from inference.text.scan import MARK, NotACall, Rule
from inference.text.telling import Piece, Telling
from inference.types import Tool


class ToolCalls:
    """The calls in the answer `index`, to one of `tools`, in the format `form` ("auto": in any).

    A tag may stand anywhere; a call without one only at an opening: where the answer begins, behind a call,
    or behind a special token.

    parallel  there may be several; False: nothing is told behind the first
    """

    def __init__(
        self, tools: Iterable[Tool], index: int = 0, form: str = "auto", *, parallel: bool = True
    ) -> None:
        self._told = Telling(tools, index, parallel=parallel)
        self._form = FORMATS[form]
        self._allow(self._form.bare)
        self._tag_heads = frozenset(tag[0] for tag in self._form.tags)
        self._open = True
        self._held: list[str] = []
        self._rule: Rule[None] | None = None

    @property
    def over(self) -> bool:
        """The only call there may be is complete."""
        return self._told.over

    def feed(self, text: str) -> list[Piece]:
        """What has become certain: text, and pieces of calls."""
        if self._rule is None and not self._open and self._tag_heads.isdisjoint(text):
            return [text] if text else []
        for char in text:
            if self._told.over:
                break
            self._take(char)
        return self._told.drain()

    def mark(self, name: str = "") -> list[Piece]:
        """A special token stands here, such as <|python_tag|>; `name` is what is told of it in a text."""
        if self._rule is not None:
            try:
                self._rule.send(MARK)
            except NotACall:
                pass
            else:
                return []
        self._settle()
        self._open = True
        self._allow(self._form.behind)
        self._held += [name] if name else []
        return self._told.drain()

    def flush(self) -> list[Piece]:
        """The text that was held back. White space behind the last call is not part of the answer."""
        self._settle()
        return self._told.drain()

    def _allow(self, forms: Forms) -> None:
        """At the next opening, a call may have one of these forms."""
        self._forms = forms
        self._heads = heads(forms, self._told.tools)

    def _settle(self) -> None:
        if self._rule is None and self._told.number:
            self._held.clear()
        self._release()

    def _take(self, char: str) -> None:
        if self._rule is None:
            self._begin(char)
            return
        self._told.heard = False
        try:
            self._rule.send(char)
        except NotACall:
            self._release()
            self._begin(char)
        except StopIteration:
            self._held.clear()
            self._rule = None
            self._open = True
        else:
            self._held.append(char)
            if self._told.heard:
                self._held.clear()

    def _begin(self, char: str) -> None:
        """A character outside any call: the first of one, part of the gap in front of one, or text."""
        self._held.append(char)
        if self._open and char in self._heads:
            self._rule = bare(char, self._forms, self._form, self._told)
            next(self._rule)
        elif char in self._tag_heads or (char == "<" and self._open and self._told.number):
            closings = CLOSINGS if self._open and self._told.number else ()
            self._rule = tagged(char, self._form.tags + closings, self._form, self._told)
            next(self._rule)
        elif not (self._open and (char.isspace() or (char in ";," and self._told.number))):
            self._release()

    def _release(self) -> None:
        if self._told.open:
            self._told.abandon()
        self._told.text("".join(self._held))
        self._held.clear()
        self._rule = None
        self._open = False
