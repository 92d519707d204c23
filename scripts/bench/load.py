"""What is asked of an engine, and what came of it: plain integers and seconds.

Knows no engine and no model; whoever can compute a Load can be measured.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

WIDEST = 4  # times the middle length; what is drawn beyond is cut


@dataclass(frozen=True, slots=True)
class Request:
    """An answer of exactly `tokens` tokens, whatever the model's ends, behind the prompt `ids`.

    temperature  0: the most probable token; else top_k and top_p cut what is drawn from, but for 0 and 1
    """

    ids: tuple[int, ...]
    tokens: int
    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0


Load = Sequence[Request]


@dataclass(frozen=True, slots=True)
class Run:
    """A load, computed once.

    seconds  from the first request's arrival to the last token
    stamps   for each request, when its tokens came, in seconds after the load began; those that came
             together count once
    tokens   all that were computed as answers
    cpu      seconds of processor time that it took, all threads together: on a busy machine they tell more
             than seconds that went by
    peak_mb  the most memory its process held meanwhile, the model included; 0: unknown
    parts    seconds spent on each part of the work, where it was profiled
    """

    seconds: float
    stamps: list[list[float]]
    tokens: int
    cpu: float
    peak_mb: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def tokens_per_cpu_second(self) -> float:
        return self.tokens / max(self.cpu, 1e-9)

    def first_ms(self, share: float) -> float:
        """Until a request's first token: as long or shorter for this share of them."""
        return 1e3 * ranked([stamps[0] for stamps in self.stamps], share)

    def gap_ms(self, share: float) -> float:
        """Between two tokens of an answer: as long or shorter for this share of them."""
        return 1e3 * ranked([b - a for stamps in self.stamps for a, b in itertools.pairwise(stamps)], share)


def ranked(values: Sequence[float], share: float) -> float:
    """The value that this share of them do not exceed; 0 where there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def words(random: Random, count: int, vocab: int) -> tuple[int, ...]:
    """Token ids that nothing can be learned from. The first few are left out: they are often special."""
    return tuple(random.randrange(min(16, vocab - 1), vocab) for _ in range(count))


def alike(random: Random, vocab: int, count: int, prompt: int, answer: int) -> list[Request]:
    """So many requests of the same lengths."""
    return [Request(words(random, prompt, vocab), answer) for _ in range(count)]


def unlike(random: Random, vocab: int, count: int, prompt: int, answer: int, spread: float) -> list[Request]:
    """So many requests around these lengths, log-normal as chats are: a few are much longer than most.

    spread  the standard deviation of a length's logarithm
    """
    lengths = [(drawn(random, prompt, spread), drawn(random, answer, spread)) for _ in range(count)]
    return [Request(words(random, prompt, vocab), answer) for prompt, answer in lengths]


def drawn(random: Random, middle: int, spread: float) -> int:
    return max(1, min(WIDEST * middle, round(middle * math.exp(random.gauss(0, spread)))))


def warming(loads: Mapping[str, Load]) -> list[Request]:
    """A little of each load, to be computed before anything is measured."""
    return [replace(load[0], tokens=min(4, load[0].tokens)) for load in loads.values()]
