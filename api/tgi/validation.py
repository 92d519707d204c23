"""What TGI refuses: its rules in the order they are checked, each with its own words.

What it allows and a backend does not, the backend says.
"""

from collections.abc import Callable
from typing import NamedTuple

from api.settings import AppSettings
from api.tgi.bodies import Parameters
from api.tgi.errors import Invalid
from inference.errors import BadRequest, NoRoom, ServerError, TooLong
from inference.types import GenerationRequest

LARGEST_SEED = 2**64 - 1
UNCOUNTED = "characters"  # the text was too long to be tokenised at all

TOTAL = "`inputs` tokens + `max_new_tokens` must be <= {}. Given: {} `inputs` tokens and {} `max_new_tokens`"
UNFIT = {"json_schema": "cannot compile regex from schema: "}
UNFIT_GRAMMAR = "grammar is not valid: "
LENGTH = "`inputs` must have less than {} tokens. Given: {}"


class Asked(NamedTuple):
    """A request, and the limits it is held to."""

    inputs: str
    p: Parameters
    limits: AppSettings
    max_input: int
    streams: bool

    @property
    def best_of(self) -> int:
        return 1 if self.p.best_of is None else self.p.best_of

    @property
    def sampled(self) -> bool:
        """Whether any field asks for chance, be it with a neutral value."""
        p = self.p
        return bool(p.do_sample) or any(v is not None for v in (p.temperature, p.top_k, p.top_p, p.typical_p))

    @property
    def stops(self) -> int:
        return len(self.p.stop or ())


class Rule(NamedTuple):
    """`words` may name what was asked as {a}."""

    broken: Callable[[Asked], bool]
    words: str


def least(name: str) -> Rule:
    return Rule(
        lambda a: (value := getattr(a.p, name)) is not None and value <= 0,
        f"`{name}` must be strictly positive",
    )


def share(name: str) -> Rule:
    return Rule(
        lambda a: (value := getattr(a.p, name)) is not None and not 0 < value < 1,
        f"`{name}` must be > 0.0 and < 1.0",
    )


RULES = (
    Rule(lambda a: a.streams and a.best_of != 1, "`best_of` != 1 is not supported when streaming tokens"),
    Rule(
        lambda a: a.streams and bool(a.p.decoder_input_details),
        "`decoder_input_details` == true is not supported when streaming tokens",
    ),
    Rule(
        lambda a: a.best_of != 1 and a.limits.max_best_of == 1,
        "`best_of` != 1 is not allowed for this endpoint",
    ),
    Rule(
        lambda a: not 0 < a.best_of <= a.limits.max_best_of,
        "`best_of` must be > 0 and <= {a.limits.max_best_of}. Given: {a.best_of}",
    ),
    Rule(lambda a: a.best_of > 1 and not a.sampled, "you must use sampling when `best_of` is > 1"),
    least("temperature"),
    least("repetition_penalty"),
    Rule(
        lambda a: not -2 <= (a.p.frequency_penalty or 0) <= 2,
        "`frequency_penalty` must be >= -2.0 and <= 2.0",
    ),
    share("top_p"),
    share("typical_p"),
    least("top_k"),
    least("max_new_tokens"),
    Rule(
        lambda a: a.stops > a.limits.max_stop_sequences,
        "`stop` supports up to {a.limits.max_stop_sequences} stop sequences. Given: {a.stops}",
    ),
    Rule(
        lambda a: a.p.seed is not None and a.best_of > 1,
        "`seed` must not be set when `best_of` > 1",
    ),
    Rule(lambda a: (a.p.seed or 0) > LARGEST_SEED, f"`seed` must be <= {LARGEST_SEED}. Given: {{a.p.seed}}"),
    Rule(
        lambda a: (a.p.top_n_tokens or 0) > a.limits.max_top_n_tokens,
        "`top_n_tokens` must be >= 0 and <= {a.limits.max_top_n_tokens}. Given: {a.p.top_n_tokens}",
    ),
    Rule(lambda a: not a.inputs, "`inputs` cannot be empty"),
    Rule(
        lambda a: a.p.truncate is not None and not 0 < a.p.truncate <= a.max_input,
        "`truncate` must be strictly positive and less than {a.max_input}. Given: {a.p.truncate}",
    ),
    Rule(
        lambda a: a.p.adapter_id is not None,
        "`adapter_id` must be null: this server has no adapters. Given: {a.p.adapter_id}",
    ),
    Rule(lambda a: a.p.grammar is not None and not a.limits.grammars, "grammar is not supported"),
)


def check(asked: Asked) -> None:
    """Raises Invalid for the first rule that is broken."""
    for rule in RULES:
        if rule.broken(asked):
            raise Invalid(rule.words.format(a=asked))


def reworded(error: ServerError, request: GenerationRequest, context: int) -> ServerError:
    """A backend's refusal, in TGI's words where it has some."""
    match error:
        case NoRoom():
            return Invalid(TOTAL.format(context, error.tokens, error.asked))
        case TooLong() if UNCOUNTED not in error.rule:
            return _too_long(error, (request.max_tokens or 0) if request.fits else 0, context)
        case BadRequest(field="response_format") if request.constraint:
            words = UNFIT.get(request.constraint.kind, UNFIT_GRAMMAR)
            return Invalid(words + error.rule.partition(": ")[2])
        case _:
            return error


def _too_long(error: TooLong, asked: int, context: int) -> Invalid:
    """`asked`: the tokens that must fit behind the prompt. What both come to is checked first."""
    if error.tokens + asked > context:
        return Invalid(TOTAL.format(context, error.tokens, asked))
    return Invalid(LENGTH.format(min(error.limit, context - 1), error.tokens))
