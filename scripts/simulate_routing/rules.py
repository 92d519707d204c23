"""The rules that choose a replica for a request: this server's own, and those it is compared with.

A rule knows the requests that it has sent and what came back, as a router does, and not the replicas' caches.
"""

import random
from collections.abc import Mapping, Sequence

from inference.events import Event, Finished
from inference.remote.members.member_load import AttemptLoad, MemberLoad, Prompt
from inference.remote.members.prefix_events import INTERVAL_S
from inference.remote.members.prefix_index import PrefixIndex
from scripts.simulate_routing.replica import SimulatedRequest

# Defaults of sglang-router 0.3.2, of its cache_aware policy.
SGLANG_CACHE_THRESHOLD, SGLANG_ABS_THRESHOLD, SGLANG_REL_THRESHOLD = 0.3, 64, 1.5
RAY_MATCH_RATE = 0.1  # default of Ray's PrefixCacheAffinityRouter; its load threshold is infinite
TREE_BLOCKS = 1 << 18  # of a router's tree: 2**26 characters


class RoutingRule:
    """num_requests: those that each replica has, waiting or running."""

    def __init__(self, num_replicas: int, seed: int) -> None:
        self.num_replicas = num_replicas
        self.rng = random.Random(seed)

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        raise NotImplementedError

    def note_events(self, request: SimulatedRequest, events: Sequence[Event], now: float) -> None:
        """Events of the request have arrived; none stand for a token in the middle of it."""


class Random(RoutingRule):
    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        return self.rng.randrange(self.num_replicas)


class LeastLoaded(RoutingRule):
    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        return shortest(num_requests, self.rng)


class PowerOfTwo(RoutingRule):
    """Ray Serve's default: the shorter queue of two replicas, taken by chance."""

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        candidates = self.rng.sample(range(self.num_replicas), min(2, self.num_replicas))
        return min(candidates, key=num_requests.__getitem__)


class LongestPrefix(RoutingRule):
    """Ray's PrefixCacheAffinityRouter with its defaults: the replica that has seen most of the prompt."""

    min_match_rate = RAY_MATCH_RATE

    def __init__(self, num_replicas: int, seed: int) -> None:
        super().__init__(num_replicas, seed)
        self.prefixes = [PrefixIndex(TREE_BLOCKS) for _ in range(num_replicas)]
        self.num_blocks = [0] * num_replicas

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        prompt = request.turn.prompt
        matches = [prefixes.num_cached(prompt.hashes) for prefixes in self.prefixes]
        longest = max(matches)
        if longest > self.min_match_rate * len(prompt.hashes):
            target = self.rng.choice([i for i, match in enumerate(matches) if match == longest])
        else:
            target = shortest(self.num_blocks, self.rng)
        return self.add(target, prompt, matches[target])

    def add(self, target: int, prompt: Prompt, num_matched: int) -> int:
        """Note that the replica `target` gets the prompt. Returns it."""
        self.num_blocks[target] += len(prompt.hashes) - num_matched
        self.prefixes[target].add(prompt.hashes)
        return target


class CacheAware(LongestPrefix):
    """SGLang's cache_aware: the longest prefix, or the shortest queue while the queues differ much."""

    min_match_rate = SGLANG_CACHE_THRESHOLD

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        longest, least = max(num_requests), min(num_requests)
        if longest - least <= SGLANG_ABS_THRESHOLD or longest <= SGLANG_REL_THRESHOLD * least:
            return super().choose(request, num_requests, now)
        prompt, target = request.turn.prompt, shortest(num_requests, self.rng)
        return self.add(target, prompt, self.prefixes[target].num_cached(prompt.hashes))


class LeastWait(RoutingRule):
    """This server's rule, by the loads that its own members have."""

    def __init__(self, num_replicas: int, seed: int) -> None:
        super().__init__(num_replicas, seed)
        self.loads = [MemberLoad() for _ in range(num_replicas)]
        self.attempts: dict[SimulatedRequest, AttemptLoad] = {}

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        prompt = request.turn.prompt
        waits = [load.expected_wait(prompt) for load in self.loads]
        target = shortest(waits, self.rng)
        self.attempts[request] = self.loads[target].start(prompt, now)
        return target

    def note_events(self, request: SimulatedRequest, events: Sequence[Event], now: float) -> None:
        self.attempts[request].note_events(events, now)
        if events and isinstance(events[-1], Finished):
            self.attempts.pop(request).end()


class SeparateFronts(RoutingRule):
    """This server's rule in several servers in front, each of which gets requests by chance."""

    num_fronts = 4

    def __init__(self, num_replicas: int, seed: int) -> None:
        super().__init__(num_replicas, seed)
        self.fronts = [LeastWait(num_replicas, seed + number) for number in range(self.num_fronts)]
        self.front_of: dict[SimulatedRequest, LeastWait] = {}

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        front = self.front_of[request] = self.rng.choice(self.fronts)
        return front.choose(request, num_requests, now)

    def note_events(self, request: SimulatedRequest, events: Sequence[Event], now: float) -> None:
        self.front_of[request].note_events(request, events, now)


class LearningFronts(SeparateFronts):
    """Each front learns every INTERVAL_S which prompts the replicas have got."""

    def __init__(self, num_replicas: int, seed: int) -> None:
        super().__init__(num_replicas, seed)
        self.new_prompts: list[tuple[int, Sequence[int]]] = []  # with the replica of each
        self.learnt_at = 0.0

    def choose(self, request: SimulatedRequest, num_requests: Sequence[int], now: float) -> int:
        if now >= self.learnt_at + INTERVAL_S:
            for front in self.fronts:
                for replica, hashes in self.new_prompts:
                    front.loads[replica].note_prompts([hashes])
            self.new_prompts, self.learnt_at = [], now
        target = super().choose(request, num_requests, now)
        self.new_prompts.append((target, request.turn.prompt.hashes))
        return target


def shortest(values: Sequence[float], rng: random.Random) -> int:
    """The index of the least value; equal ones are chosen by chance."""
    return min(range(len(values)), key=lambda index: (values[index], rng.random()))


RULES: Mapping[str, type[RoutingRule]] = {
    "random": Random,
    "least loaded": LeastLoaded,
    "power of two (Ray)": PowerOfTwo,
    "longest prefix (Ray)": LongestPrefix,
    "cache-aware (SGLang)": CacheAware,
    "least wait (Hearth)": LeastWait,
    "least wait, 4 fronts apart": SeparateFronts,
    "least wait, 4 fronts (Hearth)": LearningFronts,
}
