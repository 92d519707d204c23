"""Stop strings that count only where a token ends: one that ends within a token is passed over, as TGI does.

Special tokens count by their names, though they are no part of the text. Knows characters only.
"""

from collections.abc import Iterable


class Endings:
    """What may end a text, shared by the answers of a request. Longer strings go first."""

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = sorted(strings, key=len, reverse=True)

    def watch(self) -> "EndWatch":
        return EndWatch(self)


class EndWatch:
    """One text under watch. Nothing is held back, and no string is dropped."""

    def __init__(self, endings: Endings) -> None:
        self._endings = endings
        self._tail = ""

    def feed(self, text: str, name: str = "") -> tuple[str, str]:
        """(text, the string that the text ends with or ""), of one token; `name` if it is special."""
        strings = self._endings.strings
        if not strings:
            return text, ""
        self._tail = (self._tail + (name or text))[-len(strings[0]) :]
        return text, next((string for string in strings if self._tail.endswith(string)), "")

    def flush(self) -> str:
        return ""
