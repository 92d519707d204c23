"""Ends all answers of a request at the same token: the one at which the last of them stops.

Wraps a Stream. Stop strings are matched here and not by the backend, because an answer that has stopped is
continued until all have stopped. Tokens after the common end are dropped.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

from api.neodim.pattern_thread import PatternThread
from api.neodim.stop_strings import StopTracker
from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event, Finished, Token


class SequenceProgress:
    """One answer in progress.

    num_received  tokens received from the wrapped stream
    num_emitted   tokens passed on
    end           num_received when the answer stopped or finished; None before that
    """

    def __init__(self, index: int, tracker: StopTracker) -> None:
        self.index = index
        self.tracker = tracker
        self.num_received = 0
        self.num_emitted = 0
        self.end: int | None = None
        self._finished: Finished | None = None
        self._waiting: deque[Token] = deque()

    def add_token(self, token: Token) -> None:
        self.num_received += 1
        self._waiting.append(token)
        if self.end is None and self.tracker.feed(token.text):
            self.end = self.num_received

    def finish(self, event: Finished) -> None:
        self._finished = event
        if self.end is None:
            if event.text:
                self.tracker.feed(event.text)
            self.end = self.num_received

    def emit(self, common_end: int) -> list[Token]:
        """The tokens up to `common_end` that were not emitted yet."""
        due: list[Token] = []
        while self._waiting and self.num_emitted < common_end:
            self.num_emitted += 1
            due.append(self._waiting.popleft())
        return due

    def is_complete(self, end: int) -> bool:
        """Whether the answer has stopped, and no more of its tokens up to `end`, the common end, follow."""
        return self.end is not None and (self.num_emitted == end or self._finished is not None)

    def finished_event(self) -> Finished:
        if self._finished and self.num_emitted == self.num_received:
            return self._finished
        return Finished(self.index, "stop", num_tokens=self.num_emitted)


class LockstepStream:
    """`trackers` has one tracker per answer of `stream`. Closes `stream` when every answer has ended.

    record      gets the events that are passed on, before they are
    executor    searches a pushed stream for stop strings, and calls `record`; None: the event loop does
    common_end  lower bound of the common end, in tokens: the longest answer so far, up to where it stopped
    """

    def __init__(
        self,
        stream: Stream,
        trackers: Sequence[StopTracker],
        record: Callable[[list[Event]], None],
        executor: Executor | None = None,
    ) -> None:
        self.stream = stream
        self.record = record
        self.executor = executor
        self.sequences = [SequenceProgress(index, tracker) for index, tracker in enumerate(trackers)]
        self.common_end = 0
        self.has_ended = False
        self._due: deque[Event] = deque()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._due:
            if self.has_ended:
                raise StopIteration
            self._due.extend(self._process([next(self.stream)]))
        return self._due.popleft()

    def start(self, sink: Sink) -> None:
        def send(result: list[Event] | ServerError) -> None:
            if isinstance(result, ServerError):
                self.close()
            sink(result)

        if self.executor is None:
            self.stream.start(lambda arrived: send(self._search(arrived)))
        else:
            self.stream.start(PatternThread(self._search, self.executor, send))

    def close(self) -> None:
        self.has_ended = True
        self.stream.close()

    def _search(self, arrived: list[Event] | ServerError) -> list[Event] | ServerError:
        if self.has_ended:
            return []
        if isinstance(arrived, ServerError):
            return arrived
        try:
            return self._process(arrived)
        except ServerError as error:
            return error

    def _process(self, events: list[Event]) -> list[Event]:
        due: list[Event] = []
        for event in events:
            match event:
                case Token():
                    sequence = self.sequences[event.index]
                    sequence.add_token(event)
                    self.common_end = max(self.common_end, sequence.end or sequence.num_received)
                case Finished():
                    self.sequences[event.index].finish(event)
                case _:
                    due.append(event)
        is_complete = True
        for sequence in self.sequences:
            due += sequence.emit(self.common_end)
            is_complete = is_complete and sequence.is_complete(self.common_end)
        if is_complete:
            due += [sequence.finished_event() for sequence in self.sequences]
            self.close()
        self.record(due)
        return due


class EmptyStream:
    """A stream of `num_answers` answers without tokens, for generated_tokens_count 0."""

    def __init__(self, num_answers: int) -> None:
        self._events: deque[Event] = deque(Finished(index, "length") for index in range(num_answers))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._events:
            raise StopIteration
        return self._events.popleft()

    def start(self, sink: Sink) -> None:
        sink(list(self._events))

    def close(self) -> None:
        self._events.clear()
