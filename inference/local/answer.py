"""One answer on its way out: records of ids in, events of text out.

Each token goes through decoding, stop strings and tool calls, in this order. Knows no thread and no queue.
"""

from collections.abc import Sequence
from typing import Literal, cast

from inference.engine.sequence import Record, Tops
from inference.metrics import Span
from inference.text.decode import Decoder
from inference.text.endings import EndWatch
from inference.text.stops import Watch
from inference.text.toolcalls import ToolCalls
from inference.text.vocabulary import Vocabulary
from inference.types import (
    Alternative,
    CallDelta,
    Event,
    Finished,
    FinishReason,
    GenerationRequest,
    PromptToken,
    Started,
    Token,
)


class Answer:
    """The answer `index` of a request.

    prompt  ids it continues: the first record's scores are theirs
    ends    the model's own end tokens, which are not reported as a stop
    seed    in force; None where the answer is greedy
    bare    leave out white space before the first word
    span    told how the answer goes on, for the metrics
    """

    def __init__(
        self,
        index: int,
        request: GenerationRequest,
        prompt: Sequence[int],
        *,
        decoder: Decoder,
        watch: Watch | EndWatch,
        calls: ToolCalls | None,
        ends: frozenset[int],
        seed: int | None,
        bare: bool,
        span: Span,
    ) -> None:
        self.index = index
        self.request = request
        self.prompt = prompt
        self.ends = ends
        self.seed = seed
        self.finished = False
        self.tokens = 0
        self._decoder = decoder
        self._watch = watch
        self._calls = calls
        self._bare = bare
        self._span = span

    def read(self, record: Record) -> list[Event]:
        """The events a record makes. What follows the end, a stop string's for instance, makes none."""
        events: list[Event] = []
        if record.cached is not None:
            events.append(self._start(record))
        for position in range(len(record.ids)):
            events += self._token(record, position)
            if self.finished:
                return events
        if record.reason:
            events += self._end(record)
        return events

    def give_up(self, reason: Literal["cancelled", "error"]) -> None:
        """It will not be told to its end."""
        self.finished = True
        self._span.finished(reason)

    def _start(self, record: Record) -> Started:
        self._span.started(record.waited, record.cached or 0)
        words = self._decoder.vocabulary
        scored = zip(self.prompt, record.prompt, strict=False)
        tokens = tuple(
            PromptToken(id, words.text(id), score.logprob, score.rank, named(words, score.tops))
            for id, score in scored
        )
        cached = cast(int, record.cached)
        return Started(self.index, len(self.prompt), cached, tuple(self.prompt), tokens, record.waited)

    def _token(self, record: Record, position: int) -> list[Event]:
        id = record.ids[position]
        self.tokens += 1
        self._span.token()
        ends = record.reason == "stop" and position == len(record.ids) - 1
        special = ends or id in self._decoder.vocabulary.special
        # A special token may begin a call, so no text of before may come behind it.
        before = self._watch.flush() if self._calls and special else ""
        own = ends and id in self.ends  # the model's own end goes before any stop string
        name = self._decoder.vocabulary.text(id) if special and not own else ""
        text, hit = self._guard("" if ends and not self._keeps(id) else self._decoder.feed(id), name)
        text, calls = self._parse(before, text, marks=special and not ends)
        token = Token(
            self.index,
            id,
            text,
            record.logprobs[position] if record.logprobs else None,
            named(self._decoder.vocabulary, record.tops[position]) if record.tops else (),
            special,
            self._decoder.vocabulary.text(id),
        )
        if self._calls and self._calls.over:
            return [token, *calls, self._finish("stop")]
        return [token, *calls, *self._finish_on(hit)]

    def _keeps(self, end: int) -> bool:
        """Whether a token that ends the answer is part of its text; of the model's own, nobody expects it."""
        return self.request.keep_stop and (self.request.show_special or end not in self.ends)

    def _guard(self, text: str, name: str = "") -> tuple[str, str]:
        """(text that may be told, the stop string that ended it or "")"""
        if self._bare:
            text = text.lstrip()
            self._bare = not text
        if self.tokens <= self.request.min_tokens:
            return text, ""
        return self._watch.feed(text, name)

    def _parse(
        self, before: str, text: str = "", *, marks: bool = False, last: bool = False
    ) -> tuple[str, list[Event]]:
        """(the text, the calls) among what is certain; `marks`: `text` is the name of a special token."""
        if self._calls is None:
            return before + text, []
        pieces = self._calls.feed(before)
        pieces += self._calls.mark(text) if marks else self._calls.feed(text)
        if last:
            pieces += self._calls.flush()
        calls: list[Event] = [piece for piece in pieces if isinstance(piece, CallDelta)]
        return "".join(piece for piece in pieces if isinstance(piece, str)), calls

    def _finish_on(self, hit: str) -> list[Event]:
        if not hit:
            return []
        text, calls = self._parse("", last=True)
        return [*calls, self._finish("stop", text, hit)]

    def _end(self, record: Record) -> list[Event]:
        """The engine's own end: tell what was held back, unless that completes a stop string."""
        text, hit = self._guard(self._decoder.flush())
        text, calls = self._parse(text if hit else text + self._watch.flush(), last=True)
        stop: str | int | None = hit or None
        if not hit and record.reason == "stop" and record.ids and record.ids[-1] not in self.ends:
            stop = record.ids[-1]
        reason = "stop" if hit else cast(FinishReason, record.reason)
        return [*calls, self._finish(reason, text, stop)]

    def _finish(self, reason: FinishReason, text: str = "", stop: str | int | None = None) -> Finished:
        self.finished = True
        self._span.finished(reason)
        return Finished(self.index, reason, text, stop, self.tokens, self.seed)


def named(words: Vocabulary, tops: Tops) -> tuple[Alternative, ...]:
    return tuple(Alternative(id, words.text(id), logprob, id in words.special) for id, logprob in tops)
