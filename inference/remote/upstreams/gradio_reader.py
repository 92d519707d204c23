"""Reads the events of a call of gradio, whose data is h2oGPT's answer so far, as a Python literal."""

from collections.abc import Mapping
from typing import Any

from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import broken, in_band, refused
from inference.remote.upstreams.answer_stops import AnswerStops
from inference.remote.upstreams.choices import Choices
from inference.text.stop_strings import StopStrings
from inference.types import Event, Token
from inference.untrusted_json import decode_json
from inference.untrusted_literal import parse_literal

UNKNOWN_ID = -1
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
        result = self._read_result(event.data)
        events = [*self._choices.start(self._index), *self._choices.tokens(self._new_tokens(result))]
        if event.name == COMPLETE or self._stops.stop:
            events += self._end(result)
        return events

    def read_document(self, body: bytes) -> list[Event]:
        raise broken(self._model, "it is not streamed")

    def finish(self) -> list[Event]:
        return self._choices.finish()

    def finish_at_deadline(self) -> list[Event]:
        return self._choices.finish_at_deadline({self._index: self._stops.held_text()})

    def _read_result(self, data: bytes) -> Mapping[str, Any]:
        """h2oGPT's answer so far. Raises UpstreamFailure if it has another form, or reports an error."""
        try:
            result = parse_literal(decode_json(data)[0])
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
