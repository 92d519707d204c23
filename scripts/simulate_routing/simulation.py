"""The discrete-event simulation: conversations arrive, a rule chooses replicas, and their steps take time."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from inference.events import Finished
from scripts.simulate_routing.conversations import SimulatedConversation
from scripts.simulate_routing.replica import SimulatedReplica, SimulatedRequest
from scripts.simulate_routing.rules import RoutingRule


@dataclass(slots=True)
class Figures:
    """What is measured of the requests that arrive after the warm-up. Times in seconds."""

    first_token_s: list[float] = field(default_factory=list)
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / max(1.0, self.prompt_tokens)

    def percentile(self, share: float) -> float:
        """Seconds until the first token that this share of the requests stays below."""
        ordered = sorted(self.first_token_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def add(self, request: SimulatedRequest) -> None:
        self.first_token_s.append(request.first_token_at - request.arrived_at)
        self.prompt_tokens += request.turn.prompt.num_tokens
        self.cached_tokens += request.cached_tokens


class Simulation:
    """warm_up_s: nothing is measured before. A request that has no first token at ends_at counts as late."""

    def __init__(self, rule: RoutingRule, cache_tokens: int, *, warm_up_s: float, ends_at: float) -> None:
        self._rule = rule
        self._replicas = [SimulatedReplica(cache_tokens) for _ in range(rule.num_replicas)]
        self._warm_up_s, self._ends_at = warm_up_s, ends_at
        self._figures = Figures()
        # (time, order of equal times, the replica whose step ends, or the conversation and its next turn)
        self._events: list[tuple[float, int, int | tuple[SimulatedConversation, int]]] = []
        self._order = count()
        self._unfinished: dict[SimulatedRequest, tuple[SimulatedConversation, int]] = {}

    def run(self, conversations: Iterable[SimulatedConversation]) -> Figures:
        for conversation in conversations:
            self._push(conversation.starts_at, (conversation, 0))
        while self._events and self._events[0][0] < self._ends_at:
            now, _, event = heapq.heappop(self._events)
            if isinstance(event, int):
                self._end_step(event, now)
            else:
                self._arrive(*event, now)
        self._count_late()
        return self._figures

    def _push(self, time: float, event: int | tuple[SimulatedConversation, int]) -> None:
        heapq.heappush(self._events, (time, next(self._order), event))

    def _arrive(self, conversation: SimulatedConversation, index: int, now: float) -> None:
        request = SimulatedRequest(conversation.turns[index], now)
        self._unfinished[request] = (conversation, index)
        target = self._rule.choose(request, [each.num_requests for each in self._replicas], now)
        self._replicas[target].submit(request)
        if not self._replicas[target].is_stepping:
            self._begin_step(target, now)

    def _begin_step(self, replica: int, now: float) -> None:
        seconds = self._replicas[replica].begin_step()
        if seconds is not None:
            self._push(now + seconds, replica)

    def _end_step(self, replica: int, now: float) -> None:
        for request in self._replicas[replica].end_step(now):
            self._figures.output_tokens += now >= self._warm_up_s
            if request.num_tokens == 1 and request.arrived_at >= self._warm_up_s:
                self._figures.add(request)
            if request.is_finished:
                self._finish(request, now)
            else:
                self._rule.note_events(request, (), now)
        self._begin_step(replica, now)

    def _finish(self, request: SimulatedRequest, now: float) -> None:
        end = Finished(0, "stop", cached_tokens=int(request.cached_tokens))
        self._rule.note_events(request, (end,), now)
        conversation, index = self._unfinished.pop(request)
        if index + 1 < len(conversation.turns):
            self._push(now + request.turn.pause_s, (conversation, index + 1))

    def _count_late(self) -> None:
        """Count what has waited so far, so that an overloaded replica does not hide its queue."""
        for request in self._unfinished:
            if not request.num_tokens and request.arrived_at >= self._warm_up_s:
                self._figures.first_token_s.append(self._ends_at - request.arrived_at)
