"""Reads the chunks of OpenAI's streams, of chat completions and of completions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference.events import Event, PromptToken, Token, TopLogprob
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import broken, in_band
from inference.remote.upstreams.answer_stops import AnswerStops
from inference.remote.upstreams.choices import UNKNOWN_ID, Choices, is_count, known_logprob
from inference.text.stop_strings import StopStrings
from inference.untrusted_json import decode_json

DONE = b"[DONE]"
TOKEN_ID_PREFIX = "token_id:"  # vLLM's name of a token, on request


class OpenAIReader:
    """An AnswerReader for the answers 0 to n - 1.

    stops         that are cut off here; None: the server does it
    ends_at_stop  the server does not know the stops: the answer ends here at the first one
    """

    def __init__(
        self, model: str, num_answers: int, stops: StopStrings | None = None, ends_at_stop: bool = False
    ) -> None:
        self._model = model
        self._choices = Choices(model, tuple(range(num_answers)))
        self._stops = [AnswerStops(stops) for _ in range(num_answers)] if stops else []
        self._ends_at_stop = ends_at_stop
        self._is_done = False

    @property
    def is_complete(self) -> bool:
        return self._is_done or (self._ends_at_stop and self._choices.are_finished)

    def read(self, event: ServerSentEvent) -> list[Event]:
        if event.data == DONE:
            self._is_done = True
            return []
        try:
            chunk = decode_json(event.data)
        except ValueError:
            raise broken(self._model, "an event is no JSON") from None
        return self._read_chunk(chunk, event.name == b"error")

    def read_document(self, body: bytes) -> list[Event]:
        """A whole answer has `message` in place of `delta`."""
        try:
            return self._read_chunk(decode_json(body), False)
        except ValueError:
            raise broken(self._model, "it is no JSON") from None

    def finish(self) -> list[Event]:
        return self._choices.finish()

    def finish_at_deadline(self) -> list[Event]:
        return self._choices.finish_at_deadline(
            {index: stops.held_text() for index, stops in enumerate(self._stops)}
        )

    def _read_chunk(self, chunk: Any, is_error: bool) -> list[Event]:
        if not isinstance(chunk, dict):
            raise broken(self._model, "an event is no object")
        if is_error or chunk.get("error"):
            raise in_band(self._model, chunk.get("error") or chunk)
        self._read_usage(chunk.get("usage"))
        events: list[Event] = []
        try:
            for choice in chunk.get("choices") or ():
                events += self._read_choice(choice, chunk)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise broken(self._model, f"a choice of the wrong form ({type(error).__name__})") from None
        return events

    def _read_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self._choices.note_counts(
            prompt=usage.get("prompt_tokens"),
            completion=usage.get("completion_tokens"),
            cached=detail_of(usage, "prompt_tokens_details", "cached_tokens"),
            reasoning=detail_of(usage, "completion_tokens_details", "reasoning_tokens"),
        )

    def _read_choice(self, choice: Mapping[str, Any], chunk: Mapping[str, Any]) -> list[Event]:
        index = choice.get("index", 0)
        prompt_ids = choice.get("prompt_token_ids") or chunk.get("prompt_token_ids") or ()
        if prompt_ids and self._choices.prompt_tokens is None:
            self._choices.note_counts(prompt=len(prompt_ids))
        prompt_logprobs = choice.get("prompt_logprobs") or chunk.get("prompt_logprobs") or ()
        events = self._choices.start(index, tuple(prompt_ids), read_prompt(prompt_ids, prompt_logprobs))
        if self._choices.is_finished(index):
            return events
        delta = choice.get("delta") or choice.get("message") or {}
        text = delta.get("content") or choice.get("text") or ""
        tokens = read_tokens(index, text, choice.get("logprobs"), choice.get("token_ids") or ())
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            tokens = with_reasoning(tokens or [Token(index, UNKNOWN_ID, "")], reasoning)
        stops = self._stops[index] if self._stops else None
        if stops:
            tokens = [replace(token, text=stops.feed(token.text)) for token in tokens]
        calls = self._read_calls(index, delta)
        reason = "stop" if stops and stops.stop and self._ends_at_stop else choice.get("finish_reason")
        if not reason:
            return [*events, *self._choices.tokens(tokens), *calls]
        stop = stops.stop if stops and stops.stop else stop_of(choice)
        held_text = stops.held_text() if stops else ""
        end = self._choices.end(index, reason, stop, last_tokens=tokens, text=held_text)
        return [*events, *calls, *end]

    def _read_calls(self, index: int, delta: Mapping[str, Any]) -> list[Event]:
        """The events of the tool calls in a delta, also in OpenAI's older form."""
        events: list[Event] = []
        for call in delta.get("tool_calls") or ():
            events += self._read_call(index, call.get("index") or 0, call.get("id") or "", call["function"])
        if delta.get("function_call"):
            events += self._read_call(index, 0, "", delta["function_call"])
        return events

    def _read_call(self, index: int, number: int, id: str, function: Mapping[str, Any]) -> list[Event]:
        calls = self._choices.calls(index)
        return calls.add(number, id, function.get("name") or "", function.get("arguments") or "")


def detail_of(usage: Mapping[str, Any], details: str, name: str) -> Any:
    """A count in the details of a usage; None: it has none."""
    counts = usage.get(details)
    return counts.get(name) if isinstance(counts, dict) else None


def stop_of(choice: Mapping[str, Any]) -> Any:
    """What has ended the answer: vLLM's stop_reason, or SGLang's stop string, also named for end tokens."""
    matched = choice.get("matched_stop")
    return matched if isinstance(matched, str) else choice.get("stop_reason")


def read_tokens(index: int, text: str, logprobs: Any, token_ids: Sequence[int]) -> list[Token]:
    """One token for each logprob or token id, else one for the text; none for an empty text alone.

    The text is the last token's where the tokens' own texts do not join to it.
    """
    if logprobs:
        entries = logprobs.get("content")
        tokens = read_chat_logprobs(index, entries) if entries else read_completion_logprobs(index, logprobs)
        tokens = with_ids(tokens, token_ids)
        if tokens:
            return tokens if "".join(each.text for each in tokens) == text else with_text(tokens, text)
    if len(token_ids) > 1:
        return with_text([Token(index, id, "") for id in token_ids], text)
    if token_ids or text:
        return [Token(index, token_ids[0] if token_ids else UNKNOWN_ID, text, spelling=text)]
    return []


def read_prompt(
    token_ids: Sequence[int], logprobs: Sequence[Mapping[str, Any] | None]
) -> tuple[PromptToken, ...]:
    """The prompt's tokens, by vLLM's prompt_logprobs: the candidates for each by id; None for the first."""
    if not logprobs:
        return ()
    return tuple(
        read_prompt_token(id, candidates or {}) for id, candidates in zip(token_ids, logprobs, strict=True)
    )


def read_prompt_token(id: int, candidates: Mapping[str, Any]) -> PromptToken:
    """candidates: the most probable ones and the token itself, whose rank may be below theirs"""
    read = {
        int(key): (int(each["rank"]), str(each.get("decoded_token") or ""), known_logprob(each["logprob"]))
        for key, each in candidates.items()
    }
    top = sorted((rank, key) for key, (rank, _, logprob) in read.items() if logprob is not None)
    rank, text, logprob = read.get(id, (0, "", None))
    top_logprobs = tuple(
        TopLogprob(key, read[key][1], read[key][2] or 0.0) for place, key in top if place <= len(read)
    )
    return PromptToken(id, text, logprob, rank, top_logprobs)


def read_chat_logprobs(index: int, entries: Sequence[Mapping[str, Any]]) -> list[Token]:
    return [
        Token(
            index,
            token_id(entry["token"], entry.get("id")),
            spelling := token_text(entry),
            known_logprob(entry.get("logprob")),
            tuple(top_logprob(each) for each in entry.get("top_logprobs") or ()),
            spelling=spelling,
        )
        for entry in entries
    ]


def read_completion_logprobs(index: int, logprobs: Mapping[str, Any]) -> list[Token]:
    """The tokens of a completion's logprobs: parallel lists."""
    texts, values = logprobs.get("tokens") or (), logprobs.get("token_logprobs") or ()
    tops = logprobs.get("top_logprobs") or [None] * len(texts)
    return [
        Token(
            index,
            token_id(text),
            text,
            known_logprob(value),
            tuple(
                TopLogprob(token_id(name), name, known)
                for name, each in (top or {}).items()
                if (known := known_logprob(each)) is not None
            ),
            spelling=text,
        )
        for text, value, top in zip(texts, values, tops, strict=False)
    ]


def top_logprob(entry: Mapping[str, Any]) -> TopLogprob:
    logprob = known_logprob(entry.get("logprob"))
    return TopLogprob(
        token_id(entry["token"], entry.get("id")),
        token_text(entry),
        float("-inf") if logprob is None else logprob,
    )


def token_text(entry: Mapping[str, Any]) -> str:
    """The entry's text: its bytes, where they are whole characters, beat the token's name."""
    if entry.get("bytes"):
        try:
            return bytes(entry["bytes"]).decode()
        except UnicodeDecodeError:
            return ""
    return str(entry["token"])


def token_id(name: str, id: Any = None) -> int:
    """The id that vLLM puts into the name, or llama.cpp beside it."""
    if is_count(id):
        return int(id)
    number = name.removeprefix(TOKEN_ID_PREFIX)
    return int(number) if number != name and number.isdecimal() else UNKNOWN_ID


def with_ids(tokens: list[Token], token_ids: Sequence[int]) -> list[Token]:
    """The tokens with these ids, if they are as many."""
    if len(token_ids) != len(tokens):
        return tokens
    return [replace(token, id=id) for token, id in zip(tokens, token_ids, strict=True)]


def with_reasoning(tokens: list[Token], reasoning: str) -> list[Token]:
    """The tokens with the reasoning on the first one."""
    first, *rest = tokens
    return [replace(first, reasoning=reasoning, spelling=first.spelling or reasoning), *rest]


def with_text(tokens: list[Token], text: str) -> list[Token]:
    """The tokens with empty texts, and `text` on the last one."""
    texts = [""] * (len(tokens) - 1) + [text]
    return [replace(each, text=text) for each, text in zip(tokens, texts, strict=True)]
