"""Sends one call to the upstream and relays the events of its response, with limits and retries.

A call is sent again only before its first event. Runs on the event loop.
"""

import asyncio
import random
import time

import aiohttp

from inference.metrics.upstream import UpstreamRequestStats
from inference.remote.event_stream import EventStreamParser, TooLargeEvent
from inference.remote.failures import UpstreamFailure, broken, late, unreachable
from inference.remote.http_client import HttpClient, read_body
from inference.remote.retry_budget import RetryBudget
from inference.remote.stream import Emit
from inference.remote.upstream_api import AnswerReader, UpstreamCall
from inference.types import Event, Token

MAX_RETRIES = 2
FIRST_DELAY_S, MAX_DELAY_S, JITTER = 0.25, 4.0, 0.2
MAX_WAITED_RETRY_AFTER_S = 10.0
MAX_DOCUMENT_BYTES = 32 << 20
STREAM, DOCUMENT = "text/event-stream", "application/json"


class Relay:
    """One call and its repetitions.

    ends_at  loop time at which the request's deadline ends the answers; None: never
    """

    def __init__(
        self,
        client: HttpClient,
        call: UpstreamCall,
        budget: RetryBudget,
        stats: UpstreamRequestStats,
        ends_at: float | None,
    ) -> None:
        self._client = client
        self._call = call
        self._budget = budget
        self._stats = stats
        self._ends_at = ends_at
        self._has_events = False
        self._emit: Emit = lambda events: None

    async def run(self, emit: Emit) -> None:
        """Relay the whole response. Raises UpstreamFailure."""
        self._emit = emit
        for attempt in range(MAX_RETRIES + 1):
            try:
                await self._attempt()
                return
            except UpstreamFailure as failure:
                delay_s = self._delay_s(failure, attempt)
                if delay_s is None:
                    raise
                self._stats.record_retry(failure.outcome)
                await asyncio.sleep(delay_s)

    def _delay_s(self, failure: UpstreamFailure, attempt: int) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        if self._has_events or not failure.is_retried or attempt >= MAX_RETRIES:
            return None
        delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2**attempt) * random.uniform(1 - JITTER, 1 + JITTER)
        if failure.retry_after is not None:
            if failure.retry_after > MAX_WAITED_RETRY_AFTER_S:
                return None
            delay_s = failure.retry_after
        now = asyncio.get_running_loop().time()
        is_late = self._ends_at is not None and now + delay_s >= self._ends_at
        return None if is_late or not self._budget.take(time.monotonic()) else delay_s

    async def _attempt(self) -> None:
        reader = self._call.make_reader()
        timeouts = self._client.model.timeouts
        loop = asyncio.get_running_loop()
        first_at = loop.time() + timeouts.connect + timeouts.first
        try:
            async with asyncio.timeout_at(self._earlier(first_at)) as limit:
                async with self._client.post(self._call.path, self._call.body) as response:
                    await self._read(response, reader, limit)
        except TimeoutError:
            if self._ends_at is not None and loop.time() >= self._ends_at:
                self._pass_on(reader.finish_at_deadline())
                return
            raise late(
                self._client.model.name, timeouts.silence if self._has_events else timeouts.first
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._interrupted(error) from None
        except TooLargeEvent:
            raise broken(self._client.model.name, "an event of more than 1 MiB") from None

    async def _read(
        self, response: aiohttp.ClientResponse, reader: AnswerReader, limit: asyncio.Timeout
    ) -> None:
        if response.content_type == DOCUMENT:
            self._pass_on(reader.read_document(await read_body(response, MAX_DOCUMENT_BYTES)))
        elif response.content_type == STREAM:
            await self._read_events(response, reader, limit)
        else:
            raise broken(self._client.model.name, f"its type is {response.content_type}")
        self._pass_on(reader.finish())

    async def _read_events(
        self, response: aiohttp.ClientResponse, reader: AnswerReader, limit: asyncio.Timeout
    ) -> None:
        parser, loop = EventStreamParser(), asyncio.get_running_loop()
        silence_s = self._client.model.timeouts.silence
        async for chunk in response.content.iter_any():
            events: list[Event] = []
            for event in parser.feed(chunk):
                events += reader.read(event)
                if reader.is_complete:
                    self._pass_on(events)
                    return
            self._pass_on(events)
            if self._has_events:
                limit.reschedule(self._earlier(loop.time() + silence_s))

    def _pass_on(self, events: list[Event]) -> None:
        if events:
            if not self._has_events:
                self._has_events = True
                self._stats.record_first_event()
            self._stats.record_tokens(sum(isinstance(event, Token) for event in events))
            self._emit(events)

    def _earlier(self, at: float) -> float:
        return at if self._ends_at is None else min(at, self._ends_at)

    def _interrupted(self, error: Exception) -> UpstreamFailure:
        if self._has_events:
            return broken(self._client.model.name, "the connection was closed")
        return unreachable(self._client.model.name, type(error).__name__)
