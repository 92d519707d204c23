"""One request of a client at the servers of a model: which one gets it, and when it is sent again.

It is sent again only before its first event, first to other servers, within a budget.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from inference.errors import BadRequest, Unavailable
from inference.metrics.upstream import UpstreamRequestStats
from inference.remote.failures import UpstreamFailure
from inference.remote.member import Member, Prompt
from inference.remote.prefix_index import block_hashes, prompt_bytes
from inference.remote.retry_budget import RetryBudget
from inference.remote.stream import Emit
from inference.types import Event, GenerationRequest

MAX_RETRIES = 2
FIRST_DELAY_S, MAX_DELAY_S, JITTER = 0.25, 4.0, 0.2
MAX_WAITED_RETRY_AFTER_S = 10.0
# Outcomes of one server that another one may not have; the same one is not tried again.
OTHERS_ONLY = frozenset({"refused", "redirect", "resting"})


class Attempts:
    """The attempts at one request.

    ends_at     loop time at which the request's deadline ends the answers; None: never
    has_events  something was passed on
    """

    def __init__(
        self,
        model: str,
        members: Sequence[Member],
        request: GenerationRequest,
        budget: RetryBudget,
        stats: UpstreamRequestStats,
        ends_at: float | None,
    ) -> None:
        self._model = model
        self._members = members
        self._request = request
        self._budget = budget
        self._stats = stats
        self._ends_at = ends_at
        self._prompt = make_prompt(request) if len(members) > 1 else Prompt()
        self._failed: list[Member] = []
        self.has_events = False

    async def run(self, emit: Emit) -> None:
        """Relay the whole answer of one server. Raises UpstreamFailure, or BadRequest if none can do it."""

        def pass_on(events: list[Event]) -> None:
            self.has_events = True
            emit(events)

        while True:
            member = self._choose()
            try:
                calls = member.api.calls(self._request)
                await member.relay(calls, self._prompt, self._stats, self._ends_at, pass_on)
                return
            except UpstreamFailure as failure:
                self._failed.append(member)
                delay_s = self._delay_s(failure)
                if delay_s is None:
                    raise
                self._stats.record_retry(failure.outcome)
                await asyncio.sleep(delay_s)
            except BadRequest:
                self._failed.append(member)
                if set(self._failed) >= set(self._members):
                    raise

    def _choose(self) -> Member:
        """The server with the least expected wait: one that has not failed, and that does not rest.

        If all rest, the one that failed first is tried. Raises UpstreamFailure if that is being done already.
        """
        now = time.monotonic()
        allowed = [member for member in self._members if member.breaker.allows(now)]
        candidates = [member for member in allowed if member not in self._failed] or allowed
        if candidates:
            return min(candidates, key=lambda member: member.expected_wait(self._prompt))
        oldest = min(self._members, key=lambda member: member.breaker.failed_at)
        if not self._failed and oldest.breaker.takes_trial:
            return oldest
        rest_s = min(member.breaker.rest_s(now) for member in self._members)
        raise resting(self._model, oldest.breaker.problem, rest_s)

    def _delay_s(self, failure: UpstreamFailure) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        others = set(self._members) - set(self._failed)
        is_repeated = failure.is_retried or (bool(others) and failure.outcome in OTHERS_ONLY)
        if self.has_events or not is_repeated or len(self._failed) > MAX_RETRIES:
            return None
        delay_s = 0.0 if others else self._delay_at_same_s(failure.outcome == "overloaded")
        if delay_s is None:
            return None
        now = asyncio.get_running_loop().time()
        is_late = self._ends_at is not None and now + delay_s >= self._ends_at
        return None if is_late or not self._budget.take(time.monotonic()) else delay_s

    def _delay_at_same_s(self, is_overloaded: bool) -> float | None:
        """Seconds until a failed server gets the request again. Only overloaded ones are waited for."""
        now = time.monotonic()
        rest_s = min(member.breaker.rest_s(now) for member in self._members)
        if rest_s:
            return rest_s if is_overloaded and rest_s <= MAX_WAITED_RETRY_AFTER_S else None
        backoff_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (len(self._failed) - 1))
        return backoff_s * random.uniform(1 - JITTER, 1 + JITTER)


def make_prompt(request: GenerationRequest) -> Prompt:
    text = prompt_bytes(request)
    return Prompt(len(text), block_hashes(text))


class Resting(Unavailable):
    """Every server of the model rests after failures. retry_after: seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def resting(model: str, problem: str, rest_s: float) -> UpstreamFailure:
    error = Resting(f"no server of {model} takes requests for now: {problem}", max(1.0, rest_s))
    return UpstreamFailure(error, "resting")
