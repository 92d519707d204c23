"""A simulated server: steps with a row for each running answer and chunks of new prompts, and a prefix cache.

Its speeds are about those of a model of 8 B on one GPU. Running answers take no room from the prefix cache.
"""

from collections import deque
from dataclasses import dataclass

from inference.remote.members.prefix_index import PrefixIndex
from scripts.simulate_routing.conversations import BLOCK_TOKENS, SimulatedTurn

STEP_S, ROW_S, PROMPT_TOKEN_S = 0.012, 0.0001, 1 / 16000
STEP_TOKENS = 2048  # the most that a step computes
MAX_ROWS = 256


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """A turn at a replica. Times in seconds; uncomputed_tokens: of the prompt."""

    turn: SimulatedTurn
    arrived_at: float
    uncomputed_tokens: float = 0.0
    cached_tokens: float = 0.0
    num_tokens: int = 0
    first_token_at: float = 0.0

    @property
    def is_finished(self) -> bool:
        return self.num_tokens == self.turn.num_output_tokens


class SimulatedReplica:
    def __init__(self, cache_tokens: int) -> None:
        self.num_requests = 0
        self._cache = PrefixIndex(cache_tokens // BLOCK_TOKENS)
        self._waiting: deque[SimulatedRequest] = deque()
        self._rows: list[SimulatedRequest] = []
        self._computing: list[SimulatedRequest] = []  # whose prompt ends in this step
        self.is_stepping = False

    def submit(self, request: SimulatedRequest) -> None:
        self.num_requests += 1
        self._waiting.append(request)

    def begin_step(self) -> float | None:
        """Schedule a step. Returns its seconds; None: there is nothing to compute."""
        num_prompt_tokens = self._schedule_prompts(STEP_TOKENS - len(self._rows))
        self.is_stepping = bool(num_prompt_tokens or self._rows or self._computing)
        if not self.is_stepping:
            return None
        return STEP_S + ROW_S * len(self._rows) + PROMPT_TOKEN_S * num_prompt_tokens

    def end_step(self, now: float) -> list[SimulatedRequest]:
        """The requests that get a token."""
        for request in self._computing:
            request.first_token_at = now
            self._cache.add(request.turn.prompt.hashes)
        requests = self._rows + self._computing
        for request in requests:
            request.num_tokens += 1
            if request.is_finished:
                self._cache.add(request.turn.computed.hashes)
                self.num_requests -= 1
        self._rows = [request for request in requests if not request.is_finished]
        self._computing = []
        return requests

    def _schedule_prompts(self, token_budget: float) -> float:
        """Choose the chunks of a step, in the order of arrival. Returns their tokens."""
        num_scheduled = 0.0
        while self._waiting and len(self._rows) + len(self._computing) < MAX_ROWS:
            request = self._waiting[0]
            if not request.uncomputed_tokens:
                self._look_up(request)
            chunk = min(request.uncomputed_tokens, token_budget - num_scheduled)
            request.uncomputed_tokens -= chunk
            num_scheduled += chunk
            if request.uncomputed_tokens:
                break
            self._computing.append(self._waiting.popleft())
        return num_scheduled

    def _look_up(self, request: SimulatedRequest) -> None:
        """Reuse what the cache holds of the prompt; at least one token is computed."""
        prompt = request.turn.prompt
        num_cached = self._cache.num_cached(prompt.hashes) * BLOCK_TOKENS
        request.cached_tokens = min(num_cached, prompt.num_tokens - 1)
        request.uncomputed_tokens = prompt.num_tokens - request.cached_tokens
