"""Cuts the stop strings off one answer, for servers that leave them in the text or do not know them."""

from inference.text.stop_strings import StopStrings
from inference.types import GenerationRequest


class AnswerStops:
    """The text of one answer up to its first stop string.

    stop  the stop string that has ended the text; empty: none has
    """

    def __init__(self, stops: StopStrings | None) -> None:
        self.stop = ""
        self._matcher = stops.new_matcher() if stops else None

    def feed(self, text: str) -> str:
        """The text that can be passed on: nothing after a stop string, nor what may be the start of one."""
        if self.stop:
            return ""
        if self._matcher:
            text, self.stop = self._matcher.feed(text)
        return text

    def held_text(self) -> str:
        """What was held back as the possible start of a stop string, once no more text follows."""
        return self._matcher.flush() if self._matcher and not self.stop else ""


def stop_strings(request: GenerationRequest) -> StopStrings | None:
    """What removes the request's stop strings; None: it has none."""
    if not request.stop:
        return None
    return StopStrings((), request.stop) if request.include_stop_str_in_output else StopStrings(request.stop)
