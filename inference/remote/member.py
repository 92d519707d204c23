"""A server that answers for a model: one attempt at an answer, and what the next choice needs to know."""

import asyncio
import time
from collections.abc import Coroutine, Sequence

from inference.metrics.upstream import UpstreamRequestStats
from inference.remote.breaker import Breaker
from inference.remote.failures import DEFAULT_RETRY_AFTER_S, UpstreamFailure
from inference.remote.http_client import HttpClient
from inference.remote.prefix_index import BLOCK_BYTES, BYTES_PER_TOKEN, PrefixIndex
from inference.remote.relay import Relay
from inference.remote.stream import Emit
from inference.remote.upstream_api import UpstreamApi, UpstreamCall, UpstreamTokenizer
from inference.types import Event, Finished
from settings.model_list import RemoteModel

REFUSED_REST_S = 60.0
# Outcomes that say nothing against the server; the others count as its failures, unless it only rests.
HARMLESS_OUTCOMES = frozenset({"ok", "cancelled", "bad_request"})
# Tokens of prompts a second, and seconds a step, until they are measured.
FIRST_SPEED, FIRST_STEP_S = 2000.0, 0.03
SMOOTHING = 0.2
UNCACHED_WEIGHT, STEP_WEIGHT = 2.0, 0.4  # of the expected wait; chosen by simulation


class Prompt:
    """A prompt as the choice of a member sees it. hashes: of its blocks; empty if there is no choice."""

    def __init__(self, num_bytes: int = 0, hashes: Sequence[int] = ()) -> None:
        self.num_tokens = num_bytes / BYTES_PER_TOKEN
        self.hashes = hashes


class Member:
    """One server of a model. Everything but `calls` of its api runs on the event loop.

    name       as clients see it: of the model, with a number if it has several servers
    tokenizer  None: the server does not share it
    """

    def __init__(
        self,
        model: RemoteModel,
        api: UpstreamApi,
        tokenizer: UpstreamTokenizer | None = None,
        *,
        suffix: str = "",
    ) -> None:
        self.name = model.name + suffix
        self.api = api
        self.tokenizer = tokenizer
        self.client = HttpClient(model)
        self.breaker = Breaker()
        self._prefixes = PrefixIndex()
        self._waiting_tokens = 0.0
        self._num_running = 0
        self._speed, self._step_s = FIRST_SPEED, FIRST_STEP_S

    def expected_wait(self, prompt: Prompt) -> float:
        """Seconds until an answer to the prompt begins, by what this server computes already."""
        work = self._waiting_tokens + UNCACHED_WEIGHT * self._uncached_tokens(prompt)
        return work / self._speed + STEP_WEIGHT * self._step_s * self._num_running

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        if self.tokenizer:
            await self.tokenizer.client.close()

    async def relay(
        self,
        calls: Sequence[UpstreamCall],
        prompt: Prompt,
        stats: UpstreamRequestStats,
        ends_at: float | None,
        emit: Emit,
    ) -> None:
        """Relay all calls that together answer a request, once. Raises UpstreamFailure."""
        attempt = MemberAttempt(self, prompt, emit)
        relays = [Relay(self.client, call, stats, ends_at) for call in calls]
        self.breaker.start(time.monotonic())
        try:
            await run_all([relay.run(attempt.pass_on) for relay in relays])
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

    def _uncached_tokens(self, prompt: Prompt) -> float:
        num_cached = self._prefixes.num_cached(prompt.hashes)
        return max(0.0, prompt.num_tokens - num_cached * BLOCK_BYTES / BYTES_PER_TOKEN)

    def _note_failure(self, failure: UpstreamFailure) -> None:
        now, message = time.monotonic(), failure.error.message
        if failure.outcome in HARMLESS_OUTCOMES:
            self.breaker.cancel()
        elif failure.outcome == "refused":
            self.breaker.rest(now, REFUSED_REST_S, message)
        elif failure.outcome in ("overloaded", "unavailable"):
            self.breaker.rest(now, failure.retry_after or DEFAULT_RETRY_AFTER_S, message)
        else:
            self.breaker.fail(now, message)


class MemberAttempt:
    """The load of one attempt: tokens that wait until the first event, then a row until the end.

    has_events  something was passed on: the request cannot be sent again
    """

    def __init__(self, member: Member, prompt: Prompt, emit: Emit) -> None:
        self._member = member
        self._prompt = prompt
        self._emit = emit
        self._started_at = self._last_at = time.monotonic()
        self._has_events = False
        self._num_expected = member._prefixes.num_cached(prompt.hashes)
        self._tokens = member._uncached_tokens(prompt)
        member._waiting_tokens += self._tokens
        member._num_running += 1
        member._prefixes.add(prompt.hashes)

    def pass_on(self, events: list[Event]) -> None:
        now, member = time.monotonic(), self._member
        if not self._has_events:
            self._has_events = True
            member._waiting_tokens -= self._tokens
            if self._tokens >= BLOCK_BYTES / BYTES_PER_TOKEN:
                speed = self._tokens / max(1e-3, now - self._started_at)
                member._speed += SMOOTHING * (speed - member._speed)
        else:
            member._step_s += SMOOTHING * (now - self._last_at - member._step_s)
        self._last_at = now
        for event in events:
            if isinstance(event, Finished) and event.cached_tokens is not None:
                member._prefixes.correct(self._prompt.hashes, self._num_expected, event.cached_tokens)
        self._emit(events)

    def end(self) -> None:
        self._member._num_running -= 1
        if not self._has_events:
            self._member._waiting_tokens -= self._tokens


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
