"""The stream of one request: queues the engine's outputs until they are decoded into events.

Iteration decodes in the consumer's thread; `start` decodes in the delivery thread. Knows no text.
"""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from inference.backend import Sink
from inference.engine.step_output import StepOutput
from inference.errors import Internal, ServerError
from inference.events import Event
from inference.local.answer_decoder import AnswerDecoder
from inference.process.rust_panic import is_panic, raises_panics

log = logging.getLogger(__name__)


class LocalStream:
    """A Stream over an OutputCollector.

    The engine references the collector only. A stream without references is garbage-collected, which cancels
    its request: keep a reference while events are needed.
    """

    def __init__(self, collector: "OutputCollector") -> None:
        self._collector = collector
        self._events: deque[Event] = deque()
        self._finalizer = weakref.finalize(self, collector.close)
        self._finalizer.atexit = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._events:
            self._events.extend(self._collector.get())
        return self._events.popleft()

    def start(self, sink: Sink) -> None:
        self._collector.start(sink)

    def close(self) -> None:
        self._finalizer()


class OutputCollector:
    """Collects the outputs of all answers to one request, in order of arrival.

    sequence_ids  the answers' sequences in the engine; set after submission, before the first read
    """

    def __init__(
        self, answer_decoders: Sequence[AnswerDecoder], abort: Callable[[Sequence[int]], None]
    ) -> None:
        self.answer_decoders = answer_decoders
        self.sequence_ids: Sequence[int] = ()
        self._abort = abort
        self._outputs: SimpleQueue[tuple[int, StepOutput] | None] = SimpleQueue()
        self._sink: Sink | None = None
        self._draining = threading.Lock()
        self._is_finished = False

    def sinks(self) -> list["AnswerSink"]:
        return [AnswerSink(self, index) for index in range(len(self.answer_decoders))]

    def put(self, index: int, output: StepOutput) -> None:
        self._outputs.put((index, output))
        if self._sink is not None:
            self._drain(self._sink)

    @raises_panics
    def get(self) -> list[Event]:
        """The events of the next output; blocks until there is one. Raises StopIteration at the end."""
        if self._is_finished or (item := self._outputs.get()) is None:
            raise StopIteration
        return self._events(*item)

    def start(self, sink: Sink) -> None:
        self._sink = sink
        self._drain(sink)

    def close(self) -> None:
        if not self._is_finished:
            self._abandon()
            self._outputs.put(None)

    def _drain(self, sink: Sink) -> None:
        """Emit all queued outputs in order. One thread emits at a time; it emits the others' outputs too."""
        while not self._outputs.empty() and self._draining.acquire(blocking=False):
            try:
                while not self._outputs.empty():
                    self._emit(sink, self._outputs.get())
            finally:
                self._draining.release()

    def _emit(self, sink: Sink, item: tuple[int, StepOutput] | None) -> None:
        if self._is_finished or item is None:
            return
        try:
            events = self._events(*item)
        except ServerError as error:
            sink(error)
        except BaseException as error:  # one request's failure must not end the delivery thread
            if not (isinstance(error, Exception) or is_panic(error)):
                raise
            log.exception("event=decode_failed answer=%d", item[0])
            self._abandon()
            sink(Internal("the answer could not be turned into text"))
        else:
            if events:
                sink(events)

    def _events(self, index: int, output: StepOutput) -> list[Event]:
        decoder = self.answer_decoders[index]
        if decoder.finished:
            return []
        if output.error:
            decoder.abandon("error")
            self._abandon()
            raise output.error
        events = decoder.process(output)
        if decoder.finished and not output.finish_reason:
            self._abort([self.sequence_ids[index]])
        if decoder.finished:
            self._is_finished = all(each.finished for each in self.answer_decoders)
        return events

    def _abandon(self) -> None:
        self._is_finished = True
        unfinished = [decoder for decoder in self.answer_decoders if not decoder.finished]
        if unfinished:
            self._abort([self.sequence_ids[decoder.index] for decoder in unfinished])
        for decoder in unfinished:
            decoder.abandon("cancelled")


class AnswerSink:
    """The OutputSink of one answer: passes outputs to the collector, with the answer's index."""

    def __init__(self, collector: OutputCollector, index: int) -> None:
        self._collector = collector
        self._index = index

    def put(self, output: StepOutput) -> None:
        self._collector.put(self._index, output)
