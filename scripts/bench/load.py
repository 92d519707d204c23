"""The requests to an engine, and the measured times of its answers. Knows no engine and no model."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

MAX_LENGTH_FACTOR = 4  # a random length is at most this many times the median length


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and the sampling settings of its answer.

    ids          token ids of the prompt
    num_tokens   exact length of the answer: end-of-sequence tokens are ignored
    temperature  0: greedy
    top_k        0: off
    top_p        1: off
    """

    ids: tuple[int, ...]
    num_tokens: int
    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0


Load = Sequence[Request]


@dataclass(frozen=True, slots=True)
class Run:
    """The times of one computation of a load.

    seconds             from the arrival of the requests to the last token
    token_times         for each request, seconds from the start of the load to each arrival of tokens; tokens
                        that arrive together have one time
    num_tokens          tokens of all answers
    cpu_s               CPU seconds of all threads; on a busy machine they vary less than `seconds`
    peak_mb             peak memory of the engine during the load in MB, the model included; 0: unknown
    seconds_by_section  seconds of each profiled section; empty without a profile
    """

    seconds: float
    token_times: list[list[float]]
    num_tokens: int
    cpu_s: float
    peak_mb: float = 0.0
    seconds_by_section: Mapping[str, float] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        return self.num_tokens / self.seconds

    @property
    def tokens_per_cpu_second(self) -> float:
        return self.num_tokens / max(self.cpu_s, 1e-9)

    def first_token_ms(self, quantile: float) -> float:
        """Quantile of the time to first token, in ms."""
        return 1e3 * quantile_of([token_times[0] for token_times in self.token_times], quantile)

    def inter_token_ms(self, quantile: float) -> float:
        """Quantile of the time between two arrivals of tokens of an answer, in ms."""
        return 1e3 * quantile_of(
            [b - a for token_times in self.token_times for a, b in itertools.pairwise(token_times)], quantile
        )


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """The value at this rank, without interpolation; 0 if there are no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else 0.0


def random_token_ids(random: Random, count: int, vocab: int) -> tuple[int, ...]:
    """Random token ids. The first 16 are excluded because they are often special tokens."""
    return tuple(random.randrange(min(16, vocab - 1), vocab) for _ in range(count))


def equal_length_load(
    random: Random, vocab: int, count: int, prompt_tokens: int, answer_tokens: int
) -> list[Request]:
    """`count` requests with prompts and answers of these lengths."""
    return [Request(random_token_ids(random, prompt_tokens, vocab), answer_tokens) for _ in range(count)]


def varied_length_load(
    random: Random, vocab: int, count: int, prompt_tokens: int, answer_tokens: int, spread: float
) -> list[Request]:
    """`count` requests whose lengths are log-normal, as in chats.

    prompt_tokens, answer_tokens  medians of the lengths
    spread                        standard deviation of the logarithm of a length
    """
    lengths = [
        (draw_length(random, prompt_tokens, spread), draw_length(random, answer_tokens, spread))
        for _ in range(count)
    ]
    return [
        Request(random_token_ids(random, prompt_tokens, vocab), answer_tokens)
        for prompt_tokens, answer_tokens in lengths
    ]


def draw_length(random: Random, median: int, spread: float) -> int:
    return max(1, min(MAX_LENGTH_FACTOR * median, round(median * math.exp(random.gauss(0, spread)))))


def warmup_requests(loads: Mapping[str, Load]) -> list[Request]:
    """A short request from each load, to compute before anything is measured."""
    return [replace(load[0], num_tokens=min(4, load[0].num_tokens)) for load in loads.values()]
