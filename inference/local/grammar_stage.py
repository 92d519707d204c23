"""Compiles the grammars of requests before their answers start; meanwhile a request is a PendingStream.

Knows the compiler and its queue. Does not know how a request is submitted.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event
from inference.structured_output import CompileQueue, GrammarCompiler, GrammarMatcher
from inference.structured_output.compile_queue import CompileJob
from inference.types import Constraint

Post = Callable[[Callable[[], None]], object]


class GrammarStage:
    """Compiles the grammars of one model's requests before these are submitted.

    post  runs a function on the thread that delivers events
    """

    def __init__(self, compiler: GrammarCompiler) -> None:
        self.post: Post = lambda callback: callback()
        self._compiler = compiler
        self._queue = CompileQueue()

    def compile_then(
        self, constraint: Constraint | None, field: str, submit: Callable[[GrammarMatcher | None], Stream]
    ) -> Stream:
        """The stream that `submit` returns for the constraint's matcher; `field` as in GrammarCompiler.

        A grammar that is known to be quick is compiled at once, and `submit` called in this thread.
        """
        if constraint is None:
            return submit(None)
        if self._compiler.is_quick(constraint):
            return submit(self._compiler.compile(constraint, field))
        job = self._queue.submit(
            lambda is_abandoned: submit(self._compiler.compile(constraint, field, is_abandoned))
        )
        return PendingStream(job, lambda callback: self.post(callback))


class PendingStream:
    """A Stream that becomes the result of `job`; closing it abandons the job. `post` as in GrammarStage."""

    def __init__(self, job: CompileJob[Stream], post: Post) -> None:
        self._job = job
        self._post = post
        self._is_closed = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            stream = self._job.future.result()
        except (CancelledError, ServerError):
            if self._is_closed:
                raise StopIteration from None
            raise
        return next(stream)

    def start(self, sink: Sink) -> None:
        def begin_when_posted(_: object) -> None:
            with suppress(RuntimeError):  # the event loop is closed: the server has stopped
                self._post(partial(self._begin, sink))

        self._job.future.add_done_callback(begin_when_posted)

    def close(self) -> None:
        self._is_closed = True
        self._job.abandon()
        future = self._job.future
        if future.done() and not future.cancelled() and future.exception() is None:
            future.result().close()

    def _begin(self, sink: Sink) -> None:
        if self._is_closed:
            return
        try:
            stream = self._job.future.result()
        except ServerError as error:
            sink(error)
        else:
            stream.start(sink)
