"""Several answers as one stream in which all end at the same token: the one with which the last has stopped.

A Stream over a Stream. It looks for the stops itself, since who has stopped goes on until all have; what an
answer has beyond the common end is never told.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from api.neodim.stops import Watch
from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.types import Event, Finished, Token


class Lane:
    """One answer on its way.

    come   tokens that have come; told: that have been passed on
    end    how many there were when it stopped or ended by itself; None as long as it does neither
    """

    def __init__(self, index: int, watch: Watch) -> None:
        self.index = index
        self.watch = watch
        self.come = 0
        self.told = 0
        self.end: int | None = None
        self._finished: Finished | None = None
        self._waiting: deque[Token] = deque()

    @property
    def reach(self) -> int:
        """The common end is no earlier than this."""
        return self.come if self.end is None else self.end

    def take(self, token: Token) -> None:
        self.come += 1
        self._waiting.append(token)
        if self.end is None and self.watch.feed(token.text):
            self.end = self.come

    def finish(self, event: Finished) -> None:
        self._finished = event
        if self.end is None:
            if event.text:
                self.watch.feed(event.text)
            self.end = self.come

    def tell(self, reach: int) -> Iterator[Token]:
        while self._waiting and self.told < reach:
            self.told += 1
            yield self._waiting.popleft()

    def complete(self, end: int) -> bool:
        """Whether all that belongs to the answer has been told, if `end` is the common end."""
        return self.told == end or self._finished is not None

    def last(self) -> Finished:
        if self._finished and self.told == self.come:
            return self._finished
        return Finished(self.index, "stop", tokens=self.told)


class Together:
    """`watches` has one for each answer of `stream`. Closes the stream when all have come to their end."""

    def __init__(self, stream: Stream, watches: Sequence[Watch]) -> None:
        self.stream = stream
        self.lanes = [Lane(index, watch) for index, watch in enumerate(watches)]
        self.ended = False
        self._due: deque[Event] = deque()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._due:
            if self.ended:
                raise StopIteration
            self._due.extend(self._read([next(self.stream)]))
        return self._due.popleft()

    def start(self, sink: Sink) -> None:
        self.stream.start(lambda arrived: None if self.ended else sink(self._received(arrived)))

    def close(self) -> None:
        self.ended = True
        self.stream.close()

    def _received(self, arrived: list[Event] | ServerError) -> list[Event] | ServerError:
        if isinstance(arrived, ServerError):
            return arrived
        try:
            return self._read(arrived)
        except ServerError as error:
            self.close()
            return error

    def _read(self, events: list[Event]) -> list[Event]:
        due: list[Event] = []
        for event in events:
            match event:
                case Token():
                    self.lanes[event.index].take(event)
                case Finished():
                    self.lanes[event.index].finish(event)
                case _:
                    due.append(event)
        reach = max(lane.reach for lane in self.lanes)
        for lane in self.lanes:
            due += lane.tell(reach)
        if all(lane.end is not None and lane.complete(reach) for lane in self.lanes):
            due += [lane.last() for lane in self.lanes]
            self.close()
        return due


class Nothing:
    """The stream of `answers` answers without a token; nothing is computed for it."""

    def __init__(self, answers: int) -> None:
        self._events: deque[Event] = deque(Finished(index, "length") for index in range(answers))

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
