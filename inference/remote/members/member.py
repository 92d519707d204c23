"""A server that answers for a model: one attempt at an answer, and what the next choice needs to know."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

import aiohttp

from inference.events import Embedding, Event
from inference.metrics.upstream import UpstreamRequestStats
from inference.remote.answer_settings import START_HEADER, AnswerSettings
from inference.remote.failures import DEFAULT_RETRY_AFTER_S, UpstreamFailure, broken, late, unreachable
from inference.remote.http_client import HttpClient
from inference.remote.members.breaker import Breaker
from inference.remote.members.member_load import AttemptLoad, MemberLoad, Prompt
from inference.remote.relay import CheckStart, Relay
from inference.remote.stream import Emit
from inference.remote.upstreams.openai import is_conversation
from inference.remote.upstreams.upstream_api import UpstreamApi, UpstreamCall, UpstreamTokenizer
from inference.types import GenerationRequest
from settings.remote_model import RemoteModel

REFUSED_REST_S = 60.0
MAX_START_IDS = 64
BUSY = "they are busy"
# Outcomes that say nothing against the server; the others count as its failures, unless it only rests.
HARMLESS_OUTCOMES = frozenset({"ok", "cancelled", "bad_request"})
COUNTED_OF_EMBEDDINGS = frozenset({"unreachable", "changed"})

ToText = Callable[[GenerationRequest], GenerationRequest]
Clean = Callable[[UpstreamCall], UpstreamCall]


class Member:
    """One server of a model. Everything but `calls` runs on the event loop.

    name          as clients see it: of the model, with a number if it has several servers
    settings      that change its answers, as it has said
    start_id      of the server when it said so; empty: it does not say
    last_used_at  when its last answer ended, or it was last asked whether it is there
    tokenizer     None: the server does not share it
    to_text       makes text of a request's conversation, and may raise BadRequest; None: it stays messages
    clean         makes calls with such a text read their answers without what the model leaves in them
    """

    def __init__(
        self,
        model: RemoteModel,
        api: UpstreamApi,
        tokenizer: UpstreamTokenizer | None = None,
        *,
        suffix: str = "",
        settings: AnswerSettings = MappingProxyType({}),
        start_id: str = "",
        to_text: ToText | None = None,
        clean: Clean | None = None,
    ) -> None:
        self.name = model.name + suffix
        self.api = api
        self.settings = settings
        # The starts whose settings are known. One address may stand for several servers.
        self.known_starts = deque([start_id] if start_id else (), maxlen=MAX_START_IDS)
        self.asking = asyncio.Lock()
        self.check_start: CheckStart = accept_any_start
        self.tokenizer = tokenizer
        self._to_text, self._clean = to_text, clean
        self.client = HttpClient(model)
        self.breaker = Breaker()
        self.load = MemberLoad()
        self.last_used_at = time.monotonic()
        self._is_retired = False
        # One for each running answer: they expire if the server is lost.
        self._limits: set[asyncio.Timeout] = set()

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        """The calls that together answer the request. Raises BadRequest for what the server cannot do."""
        if not (self._to_text and is_conversation(request.prompt)):
            return self.api.calls(request)
        calls = self.api.calls(self._to_text(request))
        return list(map(self._clean, calls)) if self._clean else calls

    def idle_s(self, now: float) -> float:
        """Seconds since it was last used; 0 while an answer runs, and while it rests."""
        is_busy = self.load.num_running > 0 or self.breaker.is_open(now)
        return 0.0 if is_busy else now - self.last_used_at

    async def retire(self) -> None:
        """Close all connections once the running answers have ended. No further ones begin."""
        self._is_retired = True
        if not self.load.num_running:
            await self.close()

    def lose(self) -> None:
        """The server will send nothing more: its running answers fail now, and go on elsewhere."""
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        if self.tokenizer:
            await self.tokenizer.close()

    async def relay(
        self,
        calls: Sequence[UpstreamCall],
        prompt: Prompt,
        stats: UpstreamRequestStats,
        ends_at: float | None,
        emit: Emit,
    ) -> None:
        """Relay all calls that together answer a request, once. Raises UpstreamFailure."""
        async with self._until_lost(), self._attempt(prompt, stats) as attempt:

            def pass_on(events: list[Event]) -> asyncio.Event | None:
                attempt.note_events(events, time.monotonic())
                return emit(events)

            relays = [Relay(self.client, call, stats, ends_at, self.check_start) for call in calls]
            await run_all([relay.run(pass_on) for relay in relays])

    async def embed(self, inputs: Sequence[str | Sequence[int]]) -> tuple[Embedding, ...]:
        """The vectors of the inputs. Raises UpstreamFailure, or NotImplementedHere.

        A server without embeddings may answer all else: few failures count against it.
        """
        path, body = self.api.embedding_call(inputs)
        try:
            embeddings = self.api.read_embeddings(await self._fetch(path, body))
        except UpstreamFailure as failure:
            if failure.outcome in COUNTED_OF_EMBEDDINGS:
                self._note_failure(failure)
            raise
        if len(embeddings) != len(inputs):
            raise broken(self.client.model.name, f"{len(embeddings)} embeddings of {len(inputs)} inputs")
        return embeddings

    async def _fetch(self, path: str, body: bytes) -> bytes:
        """The document that is the response, from a start of the server that may answer."""
        name, timeout_s = self.client.model.name, self.client.model.timeouts.first
        async with self._until_lost():
            try:
                async with asyncio.timeout(timeout_s), self.client.post(path, body) as response:
                    await self.check_start(response.headers.get(START_HEADER, ""))
                    return await self.client.read_document(response)
            except TimeoutError:
                raise late(name, timeout_s) from None
            except (aiohttp.ClientError, OSError):
                raise broken(name, "the connection was closed") from None

    @asynccontextmanager
    async def _until_lost(self) -> AsyncIterator[None]:
        """The block is cancelled by `lose`, and then ends with an UpstreamFailure."""
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                yield
        except TimeoutError:
            raise unreachable(self.client.model.name, "it does not report any more") from None
        finally:
            self._limits.discard(limit)

    @asynccontextmanager
    async def _attempt(self, prompt: Prompt, stats: UpstreamRequestStats) -> AsyncIterator[AttemptLoad]:
        """The block counts in the server's load, and its outcome in the breaker."""
        attempt = self.load.start(prompt, time.monotonic())
        self.breaker.start(time.monotonic())
        try:
            yield attempt
        except UpstreamFailure as failure:
            self._note_failure(failure)
            raise
        except BaseException:
            self.breaker.cancel()
            raise
        else:
            self.breaker.succeed(time.monotonic())
        finally:
            attempt.end()
            self.last_used_at = time.monotonic()
            if prompt.hashes and attempt.cached_tokens is not None:
                stats.record_prefix(attempt.expected_tokens, attempt.cached_tokens)
            if self._is_retired and not self.load.num_running:
                await self.close()

    def _note_failure(self, failure: UpstreamFailure) -> None:
        now, message = time.monotonic(), failure.error.message
        if failure.outcome in HARMLESS_OUTCOMES:
            self.breaker.cancel()
        elif failure.outcome == "changed":
            self.breaker.stay_down(now, message)
        elif failure.outcome == "refused":
            self.breaker.rest(now, REFUSED_REST_S, message)
        elif failure.outcome in ("overloaded", "unavailable"):
            message = BUSY if failure.outcome == "overloaded" else message  # without seconds that will pass
            rest_s = failure.retry_after or DEFAULT_RETRY_AFTER_S
            self.breaker.rest(now, rest_s, message, is_leaving=failure.outcome == "unavailable")
        else:
            self.breaker.fail(now, message, is_down=failure.outcome == "unreachable")


async def accept_any_start(start_id: str) -> None:
    """The check of a server that belongs to no pool."""


async def run_all(works: Sequence[Coroutine[None, None, None]]) -> None:
    """Await all. Raises the UpstreamFailure of the first one that fails; the others are cancelled."""
    if len(works) == 1:
        await works[0]
        return
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except BaseExceptionGroup as group:
        raise first_failure(group) from None


def first_failure(error: BaseException) -> BaseException:
    """The first error that is no group."""
    return first_failure(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
