"""What one server computes for this one, and so how long a new answer is expected to wait there.

Speed and step time are measured from its answers; what its prefix cache holds is assumed from its prompts,
those that this server sends and those that it says others send.
"""

from collections.abc import Iterable, Sequence

from inference.events import Event, Finished
from inference.prefix_blocks import BLOCK_BYTES, BYTES_PER_TOKEN
from inference.remote.members.prefix_index import PrefixIndex

# Tokens of prompts a second, and seconds a step, until they are measured. The speed is a high one: a server
# that seems slower than those that are measured would get no request, and so never be measured.
FIRST_SPEED, FIRST_STEP_S = 50_000.0, 0.03
SMOOTHING = 0.02  # the weight of one step in the step time, and what earlier prompts lose with each later one
UNCACHED_WEIGHT, STEP_WEIGHT = 1.5, 0.4  # of the expected wait; chosen by simulation


class Prompt:
    """A prompt as the choice of a member sees it. hashes: of its blocks; empty if there is no choice."""

    def __init__(self, num_bytes: int = 0, hashes: Sequence[int] = ()) -> None:
        self.num_tokens = num_bytes / BYTES_PER_TOKEN
        self.hashes = hashes


class MemberLoad:
    """The load of one server. Times are those of one clock, in seconds. Use it in one thread.

    num_running  attempts that have not ended
    """

    def __init__(self) -> None:
        self._prefixes = PrefixIndex()
        self._waiting_tokens = 0.0
        self.num_running = 0
        self._measured_tokens = self._measured_s = 0.0  # of prompts, the latest ones with the most weight
        self._step_s = FIRST_STEP_S

    def expected_wait(self, prompt: Prompt) -> float:
        """Seconds until an answer to the prompt begins, by what this server computes already."""
        work = self._waiting_tokens + UNCACHED_WEIGHT * self._uncached_tokens(prompt)
        return work / self.speed + STEP_WEIGHT * self._step_s * self.num_running

    @property
    def speed(self) -> float:
        """Tokens of prompts a second."""
        return self._measured_tokens / self._measured_s if self._measured_s else FIRST_SPEED

    def start(self, prompt: Prompt, now: float) -> "AttemptLoad":
        """Count an attempt at an answer to the prompt, until its end()."""
        return AttemptLoad(self, prompt, now)

    def note_prompts(self, prompts: Iterable[Sequence[int]]) -> None:
        """The server has got these prompts, as hashes of their blocks, from others too."""
        for hashes in prompts:
            self._prefixes.add(hashes)

    def _uncached_tokens(self, prompt: Prompt) -> float:
        num_cached = self._prefixes.num_cached(prompt.hashes)
        return max(0.0, prompt.num_tokens - num_cached * BLOCK_BYTES / BYTES_PER_TOKEN)

    def _note_speed(self, num_tokens: float, seconds: float) -> None:
        """Long prompts weigh more: of a short one, most of the time is the step's own."""
        self._measured_tokens = (1 - SMOOTHING) * self._measured_tokens + num_tokens
        self._measured_s = (1 - SMOOTHING) * self._measured_s + seconds


class AttemptLoad:
    """The load of one attempt: tokens that wait until the first event, then a row until the end.

    cached_tokens  of the prompt, as the server has said; None: it has not
    """

    def __init__(self, load: MemberLoad, prompt: Prompt, now: float) -> None:
        self._load = load
        self._prompt = prompt
        self._started_at = self._last_at = now
        self._has_events = False
        self.cached_tokens: int | None = None
        self._num_expected = load._prefixes.num_cached(prompt.hashes)
        self._tokens = load._uncached_tokens(prompt)
        load._waiting_tokens += self._tokens
        load.num_running += 1
        load._prefixes.add(prompt.hashes)

    @property
    def expected_tokens(self) -> int:
        """Tokens of the prompt that the server was expected to hold."""
        return self._num_expected * BLOCK_BYTES // BYTES_PER_TOKEN

    def note_events(self, events: Sequence[Event], now: float) -> None:
        """Measure the server by the time at which the events arrive."""
        load = self._load
        if not self._has_events:
            self._has_events = True
            load._waiting_tokens -= self._tokens
            if self._tokens >= BLOCK_BYTES / BYTES_PER_TOKEN:
                load._note_speed(self._tokens, max(1e-3, now - self._started_at))
        else:
            # Each running answer measures the same step: together they weigh as one.
            load._step_s += (SMOOTHING / load.num_running) * (now - self._last_at - load._step_s)
        self._last_at = now
        for event in events:
            if isinstance(event, Finished) and event.cached_tokens is not None:
                self.cached_tokens = event.cached_tokens
                load._prefixes.correct(self._prompt.hashes, self._num_expected, event.cached_tokens)

    def end(self) -> None:
        self._load.num_running -= 1
        if not self._has_events:
            self._load._waiting_tokens -= self._tokens
