"""Reads the events of a call of gradio, whose data is h2oGPT's answer so far, as a Python literal."""

from collections.abc import Mapping
from typing import Any

from inference.events import Event, Token
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import broken, in_band, refused
from inference.remote.upstreams.answer_stops import AnswerStops
from inference.remote.upstreams.choices import UNKNOWN_ID, Choices
from inference.remote.upstreams.gradio.untrusted_literal import parse_literal
from inference.text.stop_strings import StopStrings
from inference.untrusted_json import decode_json

GENERATING, COMPLETE, HEARTBEAT = b"generating", b"complete", b"heartbeat"
WRONG_KEY = "Invalid Access Key"


class GradioReader:
    """An AnswerReader for the answer `index`.

    stops       that are watched here: h2oGPT takes none
    max_tokens  of the answer: h2oGPT does not say whether it has ended one there
    """

    def __init__(self, model: str, index: int, stops: StopStrings | None, max_tokens: int) -> None:
        self._model, self._index = model, index
        self._choices = Choices(model, (index,))
        self._stops = AnswerStops(stops)
        self._max_tokens = max_tokens
        self._text = ""  # of the answer so far

    @property
    def is_complete(self) -> bool:
        return self._choices.are_finished

    def read(self, event: ServerSentEvent) -> list[Event]:
        if event.name == HEARTBEAT:
            return []
        if event.name not in (GENERATING, COMPLETE):
            raise in_band(self._model, "its function ended with an error")
        return self._read(self._decode(event.data), is_last=event.name == COMPLETE)

    def read_document(self, body: bytes) -> list[Event]:
        """The answer of gradio 3, which is whole."""
        document = self._decode(body)
        return self._read(document.get("data") if isinstance(document, Mapping) else None, is_last=True)

    def finish(self) -> list[Event]:
        return self._choices.finish()

    def finish_at_deadline(self) -> list[Event]:
        return self._choices.finish_at_deadline({self._index: self._stops.held_text()})

    def _decode(self, data: bytes) -> Any:
        """The data as JSON. Raises UpstreamFailure."""
        try:
            return decode_json(data)
        except ValueError:
            raise broken(self._model, "an event is no JSON") from None

    def _read(self, values: Any, *, is_last: bool) -> list[Event]:
        """values: what the function has returned so far"""
        result = self._read_result(values)
        events = [*self._choices.start(self._index), *self._choices.tokens(self._new_tokens(result))]
        if is_last or self._stops.stop:
            events += self._end(result)
        return events

    def _read_result(self, values: Any) -> Mapping[str, Any]:
        """h2oGPT's answer so far. Raises UpstreamFailure if it has another form, or reports an error."""
        try:
            result = parse_literal(values[0])
            error, text = str(result.get("error") or ""), result["response"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise broken(self._model, "an event is no answer of h2oGPT") from None
        if WRONG_KEY in error:
            raise refused(self._model, "its access key is wrong")
        if error:
            raise in_band(self._model, error)
        if not isinstance(text, str):
            raise broken(self._model, "the text of an answer is no text")
        return dict(result)

    def _new_tokens(self, result: Mapping[str, Any]) -> list[Token]:
        """What the text has more than before, as one token."""
        text: str = result["response"]
        if not text.startswith(self._text):
            raise broken(self._model, "its text changed")
        new_text, self._text = text[len(self._text) :], text
        if not new_text:
            return []
        return [Token(self._index, UNKNOWN_ID, self._stops.feed(new_text), spelling=new_text)]

    def _end(self, result: Mapping[str, Any]) -> list[Event]:
        saved = result.get("save_dict")
        counts = saved.get("extra_dict") if isinstance(saved, Mapping) else None
        counts = counts if isinstance(counts, Mapping) else {}
        num_tokens = counts.get("ntokens")
        self._choices.note_counts(prompt=counts.get("num_prompt_tokens"), completion=num_tokens)
        stop, text = self._stops.stop or None, self._stops.held_text()
        is_cut = stop is None and num_tokens is not None and num_tokens >= self._max_tokens
        return self._choices.end(self._index, "length" if is_cut else "stop", stop, text=text)
