"""The input of a custom tool, out of the arguments of its function: {"input": "…"}, streamed in pieces.

Knows JSON strings; knows no tools.
"""

import json
import re

from api.openai.responses.tools import INPUT

OPENING = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
MAX_OPENING = 64  # characters; longer arguments without the opening are decoded at their end
# Whole characters in a JSON string. The two escapes of a surrogate pair belong together.
WHOLE_CHARS = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*'
)


class CustomInput:
    """Decodes the arguments of one call. The pieces that it returns are the input, in order."""

    def __init__(self) -> None:
        self._arguments: list[str] = []
        self._pending = ""  # arguments that are not decoded yet
        self._is_open = False
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def feed(self, arguments: str) -> str:
        """The next piece of the input, possibly empty."""
        self._arguments.append(arguments)
        if not self._is_open and len(self._pending) > MAX_OPENING:
            return ""
        self._pending += arguments
        opening = None if self._is_open else OPENING.match(self._pending)
        if opening:
            self._is_open, self._pending = True, self._pending[opening.end() :]
        return self._take_whole_chars() if self._is_open else ""

    def close(self) -> str:
        """The rest of the input after the last piece of the arguments.

        Arguments in another form than {"input": "…"} are the input as they are. If the arguments were cut,
        the input ends with them.
        """
        arguments = "".join(self._arguments)
        try:
            value = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return ""
        text = value.get(INPUT) if isinstance(value, dict) else None
        return self._take((text if isinstance(text, str) else arguments).removeprefix(self.text))

    def _take_whole_chars(self) -> str:
        chars = WHOLE_CHARS.match(self._pending)
        assert chars is not None  # the pattern matches an empty text too
        self._pending = self._pending[chars.end() :]
        return self._take(json.loads(f'"{chars[0]}"', strict=False))

    def _take(self, text: str) -> str:
        self._texts.append(text)
        return text
