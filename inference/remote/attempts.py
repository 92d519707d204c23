"""One request of a client at the servers of a model: which one gets it, and when it is sent again.

It is sent again only before its first event, first to other servers, within a budget; afterwards only to a
server that can go on with the answer.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from inference.errors import BadRequest, Overloaded
from inference.events import Event, Started, Token
from inference.metrics.upstream import UpstreamRequestStats
from inference.prefix_blocks import block_hashes, prompt_bytes
from inference.remote.answer_progress import AnswerProgress
from inference.remote.answer_settings import AnswerSettings, disagreement
from inference.remote.failures import MIN_RETRY_AFTER_S, Resting, UpstreamFailure, changed, resting
from inference.remote.members.member import Member
from inference.remote.members.member_load import Prompt
from inference.remote.retry_budget import RetryBudget
from inference.remote.stream import Emit
from inference.types import GenerationRequest

MAX_RETRIES = 2
FIRST_DELAY_S, MAX_DELAY_S, JITTER = 0.25, 4.0, 0.2
MAX_WAITED_RETRY_AFTER_S = 10.0
# An answer goes on elsewhere at most this often, and within this many seconds of the failure.
MAX_RESUMES, RESUME_TIMEOUT_S = 8, 20.0
# How long the end of an answer that its server ends at the deadline may take to arrive.
DEADLINE_GRACE_S = 2.0
MIN_DEADLINE_S = 0.001
# Outcomes of one server that another one may not have; the same one is not tried again.
OTHERS_ONLY = frozenset({"refused", "redirect", "resting"})
# Outcomes of a server whose work does not count: another one gets the request whatever the budget.
UNCOMPUTED = frozenset({"unreachable", "unavailable", "changed"})
WAITED_FOR = frozenset({"overloaded", "unavailable"})  # outcomes after which a server says when to return


class Attempts:
    """The attempts at one request.

    ends_at  loop time at which the request's deadline ends the answers; None: never
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
        self._progress = AnswerProgress(model, request)
        self._settings: AnswerSettings = {}  # of the server where the answer has begun
        self._failed: list[Member] = []
        self._num_resumes = 0
        self._failed_since = 0.0

    async def run(self, emit: Emit) -> None:
        """Relay the whole answer. Raises UpstreamFailure, or BadRequest if no server can do it."""
        while True:
            member = self._choose()
            try:
                await self._relay(member, emit)
                return
            except UpstreamFailure as failure:
                self._note_failure(member)
                delay_s = self._delay_to_resume_s(failure) if self._has_events else self._delay_s(failure)
                if delay_s is None:
                    raise self._with_first_rest(failure) from None
                self._stats.record_retry("resume" if self._has_events else failure.outcome)
                await asyncio.sleep(delay_s)
            except BadRequest:
                self._note_failure(member)
                if set(self._failed) >= set(self._members):
                    raise

    @property
    def _has_events(self) -> bool:
        return self._progress.has_events

    async def _relay(self, member: Member, emit: Emit) -> None:
        """Relay the answer of one server, without what the client has of it already."""
        is_resumable = member.api.can_resume and (len(self._members) > 1 or self._has_events)
        request = self._progress.resumable_request() if is_resumable else self._request
        ends_at = self._ends_at
        if ends_at is not None and member.api.ends_at_deadline:
            remaining_s = ends_at - asyncio.get_running_loop().time()
            request = replace(request, deadline=max(MIN_DEADLINE_S, remaining_s))
            ends_at += DEADLINE_GRACE_S

        def pass_on(events: list[Event]) -> asyncio.Event | None:
            self._check_settings(member)
            new_events = self._progress.new_events(events)
            if not new_events:
                return None
            self._failed = []
            self._stats.record_tokens(sum(isinstance(event, Token) for event in new_events))
            return emit([with_member(event, member.name) for event in new_events])

        await self._send(member, request, ends_at, pass_on)

    def _check_settings(self, member: Member) -> None:
        """Raises UpstreamFailure if an answer would go on at a server whose settings have changed.

        The servers of a model agree, except where one has restarted while the others fail: then those do not
        count.
        """
        if not self._has_events:
            self._settings = member.settings
        elif problem := disagreement(member.settings, [self._settings]):
            raise changed(self._model, problem)

    async def _send(
        self, member: Member, request: GenerationRequest, ends_at: float | None, emit: Emit
    ) -> None:
        """Send the request, and again without an option that the server refuses."""
        calls = member.calls(request)
        self._progress.begin_attempt()
        try:
            await member.relay(calls, self._prompt, self._stats, ends_at, emit)
        except UpstreamFailure as failure:
            if failure.outcome != "bad_request" or not member.api.adapt(calls, failure.error.message):
                raise
            self._stats.record_retry(failure.outcome)
            await self._send(member, request, ends_at, emit)

    def _note_failure(self, member: Member) -> None:
        """`_failed` are the servers that have failed since the latest event."""
        if not self._failed:
            self._failed_since = time.monotonic()
            self._num_resumes += self._has_events
        self._failed.append(member)

    def _choose(self) -> Member:
        """The server with the least expected wait: one that has not failed, and that does not rest.

        Equal ones are chosen by chance. If all rest, the one that failed first is tried, and then those that
        were down: they may have restarted. Raises UpstreamFailure if that is being done already.
        """
        now = time.monotonic()
        members = [each for each in self._members if each.api.can_resume or not self._has_events]
        allowed = [member for member in members if member.breaker.allows(now)]
        candidates = [member for member in allowed if member not in self._failed] or allowed
        if candidates:
            return min(candidates, key=lambda each: (each.load.expected_wait(self._prompt), random.random()))
        oldest = min(members, key=lambda member: (member in self._failed, member.breaker.failed_at))
        is_tried = oldest.breaker.takes_trial and (not self._failed or oldest.breaker.is_down)
        if self._has_events or (is_tried and oldest not in self._failed):
            return oldest
        rest_s = min(member.breaker.rest_s(now) for member in self._members)
        raise resting(self._model, oldest.breaker.problem, rest_s)

    def _delay_s(self, failure: UpstreamFailure) -> float | None:
        """Seconds until the next attempt at an answer that has not begun; None: there is none."""
        others = set(self._members) - set(self._failed)
        is_repeated = failure.is_retried or (bool(others) and failure.outcome in OTHERS_ONLY)
        is_free = bool(others) and failure.outcome in UNCOMPUTED
        if not is_repeated or (len(self._failed) > MAX_RETRIES and not is_free):
            return None
        delay_s = 0.0 if others else self._delay_at_same_s(failure.outcome in WAITED_FOR)
        if delay_s is None or self._is_late(delay_s):
            return None
        return delay_s if is_free or self._budget.take(time.monotonic()) else None

    def _delay_to_resume_s(self, failure: UpstreamFailure) -> float | None:
        """Seconds until another server goes on with the answer; None: none does."""
        # A server that has failed may have left the list since.
        resuming = {member for member in (*self._members, *self._failed) if member.api.can_resume}
        others = resuming - set(self._failed)
        is_given_up = time.monotonic() - self._failed_since > RESUME_TIMEOUT_S
        if (
            not (self._progress.can_resume and len(resuming) > 1)
            or is_given_up
            or self._num_resumes > MAX_RESUMES
        ):
            return None
        delay_s = 0.0 if others else self._backoff_s()
        return delay_s if failure.is_retried and not self._is_late(delay_s) else None

    def _with_first_rest(self, failure: UpstreamFailure) -> UpstreamFailure:
        """The failure for the client, which may return once the first of the servers has rested."""
        if failure.outcome not in WAITED_FOR:
            return failure
        now = time.monotonic()
        rest_s = max(MIN_RETRY_AFTER_S, min(member.breaker.rest_s(now) for member in self._members))
        is_full = failure.outcome == "overloaded"
        failure.error = Overloaded(rest_s) if is_full else Resting(failure.error.message, rest_s)
        return failure

    def _is_late(self, delay_s: float) -> bool:
        """Whether the request's deadline ends the delay."""
        return self._ends_at is not None and asyncio.get_running_loop().time() + delay_s >= self._ends_at

    def _delay_at_same_s(self, is_waited_for: bool) -> float | None:
        """Seconds until a failed server gets the request again. Only those that say when are waited for."""
        now = time.monotonic()
        rest_s = min(member.breaker.rest_s(now) for member in self._members)
        if rest_s:
            return rest_s if is_waited_for and rest_s <= MAX_WAITED_RETRY_AFTER_S else None
        return self._backoff_s()

    def _backoff_s(self) -> float:
        backoff_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (len(self._failed) - 1))
        return backoff_s * random.uniform(1 - JITTER, 1 + JITTER)


def make_prompt(request: GenerationRequest) -> Prompt:
    text = prompt_bytes(request)
    return Prompt(len(text), block_hashes(text))


def with_member(event: Event, name: str) -> Event:
    """The event; Started says which server answers."""
    return replace(event, member=name) if isinstance(event, Started) else event
