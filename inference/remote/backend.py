"""RemoteBackend: a Backend whose model runs on another server. Holds no thread for a running answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

from inference.backend import Adapters, Stream
from inference.backend_info import BackendLoad, ModelInfo
from inference.drain_rate import overloaded
from inference.errors import (
    BadRequest,
    Internal,
    NotImplementedHere,
    Overloaded,
    ServerError,
    TooLong,
    Unavailable,
)
from inference.events import Embedded, Event, Started
from inference.metrics.upstream import UpstreamMetrics, UpstreamRequestStats
from inference.process.event_loop import run_on_loop
from inference.remote.attempts import Attempts
from inference.remote.embedding_attempts import embed
from inference.remote.failures import UpstreamFailure
from inference.remote.members.member_pool import MemberPool
from inference.remote.residence import AlwaysLoaded, Residence
from inference.remote.retry_budget import RetryBudget
from inference.remote.running_answers import RunningAnswer, RunningAnswers
from inference.remote.stream import Emit, RemoteStream
from inference.remote.upstreams.upstream_api import UpstreamTokenizer
from inference.tokenized import Tokenized
from inference.types import GenerationRequest
from inference.validation import check_request, limit_answers
from settings.remote_model import RemoteModel

CLOSE_TIMEOUT_S = 5.0
NO_VOCAB = 1 << 31  # an upstream does not tell the width of its logits: it judges token ids itself

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class RemoteBackend:
    """A Backend over the HTTP APIs of the servers of one model.

    pool             the servers: each can answer every request
    kind             of the servers, for lists of models
    context          tokens of prompt and answer together; None: the servers judge
    residence        of a model that is not always in memory
    adapters         of a model that a process of this server serves; None: it is served without
    running_answers  for others that must know when they end
    """

    def __init__(
        self,
        model: RemoteModel,
        pool: MemberPool,
        metrics: UpstreamMetrics,
        *,
        kind: str,
        context: int | None = None,
        residence: Residence | None = None,
        adapters: Adapters | None = None,
        running_answers: RunningAnswers | None = None,
    ) -> None:
        self._model = model
        self._pool = pool
        self._metrics = metrics
        self._residence = residence or AlwaysLoaded()
        self._adapters = adapters
        self._budget = RetryBudget()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running_answers = RunningAnswers() if running_answers is None else running_answers
        num_members = len(pool.members)
        details = {"server": kind} | ({"members": str(num_members)} if num_members > 1 else {})
        self._fallbacks: Sequence[RemoteBackend] = ()
        self._context_fallbacks: Sequence[RemoteBackend] = ()
        limit = model.max_answer_tokens
        self._answer_limit = min(limit, context) if limit and context else limit
        self._info = ModelInfo(model.name, context, NO_VOCAB, int(time.time()), details=details)

    def set_fallbacks(
        self, fallbacks: Sequence["RemoteBackend"], context_fallbacks: Sequence["RemoteBackend"]
    ) -> None:
        """The models that answer while this one cannot, or if a prompt is too long for it. At the start."""
        self._fallbacks, self._context_fallbacks = fallbacks, context_fallbacks

    def info(self) -> ModelInfo:
        return self._residence.describe(self._info)

    def unavailable_reason(self) -> str:
        return self._residence.problem() or self._pool.unavailable_reason()

    def generate(self, request: GenerationRequest) -> Stream:
        check_request(request, NO_VOCAB)
        request = limit_answers(request, self._answer_limit)
        self._pool.members[0].calls(request)  # refuses what cannot be answered, before anything is sent
        self._check_room()
        ends_at = None if request.deadline is None else time.monotonic() + request.deadline
        return RemoteStream(self._running_loop(), lambda emit: self._relay(request, ends_at, emit))

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        return self._with_tokenizer(lambda tokenizer: tokenizer.tokenize(request))

    def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        return self._with_tokenizer(lambda tokenizer: tokenizer.encode_texts(texts))

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        return self._with_tokenizer(lambda tokenizer: tokenizer.detokenize(token_ids, show_special))

    def tokenizer_config(self) -> Mapping[str, Any]:
        return self._with_tokenizer(lambda tokenizer: tokenizer.config())

    def embed(self, inputs: Sequence[str | Sequence[int]], *, in_background: bool = False) -> Stream:
        self._pool.members[0].api.embedding_call(inputs)  # refuses what no server can do
        self._check_room()
        return RemoteStream(self._running_loop(), lambda emit: self._embed(inputs, emit))

    def adapters(self) -> Adapters | None:
        return self._adapters

    def current_load(self) -> BackendLoad:
        return BackendLoad(running=len(self._running_answers))

    def seconds_until_end(self) -> float | None:
        return self._running_answers.first_end_s() if self._running_answers else None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._residence.attach(loop)
        self._pool.attach(loop)

    def close(self) -> None:
        """Close all connections. After the server's event loop has ended, only their records are left."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._pool.close(), self._loop).result(CLOSE_TIMEOUT_S)
        else:
            asyncio.run(self._pool.close())

    async def _relay(self, request: GenerationRequest, ends_at: float | None, emit: Emit) -> None:
        """Relay the answers of this model, or of a fallback if nothing of them has been passed on."""
        has_events = False

        def pass_on(events: list[Event]) -> asyncio.Event | None:
            nonlocal has_events
            has_events = True
            return emit(events)

        try:
            await self._relay_own(request, ends_at, pass_on)
            return
        except (Unavailable, Overloaded, TooLong) as error:
            first_error = error
        is_too_long = isinstance(first_error, TooLong)
        for fallback in self._context_fallbacks if is_too_long else self._fallbacks:
            if has_events:
                break
            log.info("event=fallback model=%s to=%s", self._model.name, fallback.info().id)
            self._metrics.fallbacks.labels(self._model.name, fallback.info().id).inc()
            try:
                await fallback._relay_own(request, ends_at, with_model(fallback.info().id, pass_on))
                return
            except ServerError as error:
                log.info("event=fallback_failed model=%s: %s", fallback.info().id, error.message)
        raise first_error

    async def _relay_own(self, request: GenerationRequest, ends_at: float | None, emit: Emit) -> None:
        """Relay the answers of one server. ends_at: on the clock of time.monotonic."""
        within_s = inf if ends_at is None else ends_at - time.monotonic()
        clock_difference = asyncio.get_running_loop().time() - time.monotonic()
        ends_at = None if ends_at is None else ends_at + clock_difference

        async def relay(stats: UpstreamRequestStats, running: RunningAnswer) -> None:
            def pass_on(events: list[Event]) -> asyncio.Event | None:
                running.note(events)
                return emit(events)

            attempts = Attempts(self._model.name, self._pool.members, request, self._budget, stats, ends_at)
            await attempts.run(pass_on)

        async with self._residence.use(within_s):
            await self._counted(relay, request.max_tokens, request.n)

    async def _embed(self, inputs: Sequence[str | Sequence[int]], emit: Emit) -> None:
        async def fetch(stats: UpstreamRequestStats, running: RunningAnswer) -> None:
            embeddings = await embed(self._pool.members, inputs, self._budget)
            stats.record_first_event()
            events: list[Event] = [
                Embedded(index, "stop", embedding=each) for index, each in enumerate(embeddings)
            ]
            running.note(events)
            emit(events)

        async with self._residence.use():
            await self._counted(fetch, max_tokens=0)

    async def _counted(
        self,
        work: Callable[[UpstreamRequestStats, RunningAnswer], Awaitable[None]],
        max_tokens: int | None,
        num_choices: int = 1,
    ) -> None:
        """Await `work`, and count its outcome. Raises the ServerError of a failure."""
        stats = self._metrics.start_request(self._model.name)
        self._budget.record_request(time.monotonic())
        outcome = "cancelled"
        try:
            with self._running_answers.count(max_tokens, num_choices) as running:
                await work(stats, running)
            outcome = "ok"
        except UpstreamFailure as failure:
            outcome = failure.outcome
            if outcome != "bad_request":
                level = logging.ERROR if outcome == "refused" else logging.WARNING
                log.log(level, "event=upstream_failed model=%s outcome=%s", self._model.name, outcome)
            raise failure.error from None
        except BadRequest:
            outcome = "bad_request"
            raise
        except TimeoutError:
            outcome = "late"
            raise Unavailable(f"the server behind {self._model.name} did not answer in time") from None
        except Exception:
            outcome = "internal"
            log.exception("event=relay_failed model=%s", self._model.name)
            raise Internal("the answer could not be relayed") from None
        finally:
            stats.record_end(outcome)

    def _check_room(self) -> None:
        if len(self._running_answers) >= self._model.max_concurrent:
            raise overloaded(None, self._running_answers.first_end_s())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise Unavailable("the server is starting")
        return self._loop

    def _with_tokenizer(self, work: Callable[[UpstreamTokenizer], Awaitable[Result]]) -> Result:
        """The result of `work` with a server's tokenizer. Blocks a thread that is not the event loop's.

        Raises NotImplementedHere if no server shares its tokenizer.
        """
        members = [member for member in self._pool.members if member.tokenizer]
        if not members:
            raise NotImplementedHere(f"the server behind {self._model.name} does not share its tokenizer")
        tokenizer = self._pool.first_available(members).tokenizer
        assert tokenizer is not None

        async def run() -> Result:
            try:
                async with self._residence.use(), asyncio.timeout(self._model.timeouts.first):
                    return await work(tokenizer)
            except UpstreamFailure as failure:
                raise failure.error from None
            except TimeoutError:
                raise Unavailable(f"the server behind {self._model.name} did not answer in time") from None

        return run_on_loop(self._running_loop(), run())


def with_model(name: str, emit: Emit) -> Emit:
    """Emits events of which Started says which model answers."""
    return lambda events: emit(
        [replace(event, model=name) if isinstance(event, Started) else event for event in events]
    )
