"""The speed that a model will have: formulas of what a token costs and what the device was measured to do.

A decoded token reads every weight once, so bandwidth limits it; a prompt's tokens share the reading, so
arithmetic limits them.
"""

from dataclasses import dataclass

PROMPT_TOKENS = 1000  # of the prompt whose first token is estimated
STEP_CALLS = 230  # Python and torch calls of the engine in a step of one row
LABEL = 26  # width of the labels of the printed lines
ROUNDED_FROM = 100  # numbers from here on are printed without decimals
NOTICEABLE_LOAD = 0.1  # share of the processor that others use, from which it is mentioned


@dataclass(frozen=True, slots=True)
class TokenWork:
    """What a token costs.

    layer_bytes  packed weights of the layers that it reads
    head_bytes   packed weights of the output layer
    products     multiply-adds of a prompt's token in the layers
    """

    layer_bytes: int
    head_bytes: int
    products: int


@dataclass(frozen=True, slots=True)
class Rates:
    """What the device does, measured with weights in the formats of the model; rates are per second.

    layer_bytes  weights of layers read for a single row
    head_bytes   weights of the output layer read for a single row
    products     multiply-adds of a prompt's step
    call_s       seconds of a call of the engine: of a torch operation on a few numbers
    other_load   share of the processor, 0 to 1, that other programs used during the measurement
    is_limit     steps also do work that was not measured, and are slower
    """

    layer_bytes: float
    head_bytes: float
    products: float
    call_s: float = 0.0
    other_load: float = 0.0
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """The speed of one answer alone, without HTTP.

    first_token_s  seconds until the first token after a prompt of PROMPT_TOKENS
    startup_s      seconds from a later start of the server to its first token; None if that is not known
    is_limit       the model is not faster than this, and may be slower
    other_load     as in Rates
    """

    tokens_per_s: float
    first_token_s: float
    is_limit: bool = False
    other_load: float = 0.0
    startup_s: float | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "tokens_per_second": round(self.tokens_per_s, 2),
            "first_token_seconds": round(self.first_token_s, 3),
            "prompt_tokens": PROMPT_TOKENS,
            "startup_seconds": None if self.startup_s is None else round(self.startup_s, 2),
            "is_limit": self.is_limit,
            "other_load": round(self.other_load, 2),
        }

    def describe(self) -> list[str]:
        """Lines for people."""
        most, least = ("at most ", "at least ") if self.is_limit else ("", "")
        rate, first_s = format_number(self.tokens_per_s), format_number(self.first_token_s)
        return [
            f"estimated speed of an idle machine{describe_load(self.other_load)}:",
            f"  {'one answer':<{LABEL}}{most}{rate} tokens/s",
            f"  {f'first token after {PROMPT_TOKENS:,}':<{LABEL}}{least}{first_s} s",
            *self.describe_start(),
        ]

    def describe_start(self) -> list[str]:
        if self.startup_s is None:
            return []
        return [f"  {'first token of a start':<{LABEL}}{format_number(self.startup_s)} s"]


@dataclass(frozen=True, slots=True)
class UnknownSpeed:
    """A speed that cannot be estimated, and why."""

    reason: str

    def to_json(self) -> dict[str, object]:
        return {"reason": self.reason}

    def describe(self) -> list[str]:
        return [f"speed: not estimated: {self.reason}"]


Speed = SpeedEstimate | UnknownSpeed


def estimate(work: TokenWork, rates: Rates) -> SpeedEstimate:
    """The speed of one answer alone."""
    last_s = work.head_bytes / rates.head_bytes + STEP_CALLS * rates.call_s
    token_s = work.layer_bytes / rates.layer_bytes + last_s
    prompt_s = PROMPT_TOKENS * work.products / rates.products + last_s
    return SpeedEstimate(1 / token_s, prompt_s, rates.is_limit, rates.other_load)


def describe_load(other_load: float) -> str:
    """What other programs used of the processor, if that is so much that they slowed the measurement."""
    if other_load < NOTICEABLE_LOAD:
        return ""
    return f", roughly (others used {other_load:.0%} of the processor)"


def format_number(number: float) -> str:
    """The number with three digits, or all digits before the point."""
    return f"{number:,.0f}" if number >= ROUNDED_FROM else f"{number:.3g}"
