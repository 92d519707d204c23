"""TGI's rules for requests, in the order in which TGI checks them, each with TGI's message.

Knows requests and limits. The backend checks further rules, which TGI does not have.
"""

from collections.abc import Callable
from typing import NamedTuple

from api.tgi.errors import InvalidInput
from api.tgi.protocol import GenerateParameters
from inference.errors import BadRequest, MaxTokensTooLarge, NotFound, ServerError, TooLong
from inference.served import Served, shorten_name
from inference.types import GenerationRequest
from settings.groups import ServerSettings

LARGEST_SEED = 2**64 - 1
LARGEST_TRUNCATE = 2**31 - 1

TOTAL = "`inputs` tokens + `max_new_tokens` must be <= {}. Given: {} `inputs` tokens and {} `max_new_tokens`"
GRAMMAR_ERRORS = {"json_schema": "cannot compile regex from schema: "}
GRAMMAR_ERROR = "grammar is not valid: "
LENGTH = "`inputs` must have less than {} tokens. Given: {}"


class TgiRequest(NamedTuple):
    """A request and the limits that apply to it.

    max_input  limit of the prompt in tokens; None: unknown
    served     what answers it; None: adapter_id names nothing
    """

    inputs: str
    parameters: GenerateParameters
    limits: ServerSettings
    max_input: int | None
    is_streamed: bool
    served: Served | None

    @property
    def best_of(self) -> int:
        return 1 if self.parameters.best_of is None else self.parameters.best_of

    @property
    def is_sampled(self) -> bool:
        """Whether any sampling field is set, even to a neutral value."""
        parameters = self.parameters
        values = (parameters.temperature, parameters.top_k, parameters.top_p, parameters.typical_p)
        return bool(parameters.do_sample) or any(value is not None for value in values)

    @property
    def max_truncate(self) -> int:
        """The limit of `truncate`. The backend limits the prompt if max_input is unknown."""
        return LARGEST_TRUNCATE if self.max_input is None else self.max_input

    @property
    def adapter_id(self) -> str:
        """For messages."""
        return shorten_name(self.parameters.adapter_id or "")

    @property
    def num_stops(self) -> int:
        return len(self.parameters.stop or ())


class ValidationRule(NamedTuple):
    """A rule and its error. `message` is a format string; {a} is the TgiRequest."""

    is_broken: Callable[[TgiRequest], bool]
    message: str


def must_be_positive(name: str) -> ValidationRule:
    return ValidationRule(
        lambda a: (value := getattr(a.parameters, name)) is not None and value <= 0,
        f"`{name}` must be strictly positive",
    )


def must_be_fraction(name: str) -> ValidationRule:
    return ValidationRule(
        lambda a: (value := getattr(a.parameters, name)) is not None and not 0 < value < 1,
        f"`{name}` must be > 0.0 and < 1.0",
    )


RULES = (
    ValidationRule(
        lambda a: a.is_streamed and a.best_of != 1, "`best_of` != 1 is not supported when streaming tokens"
    ),
    ValidationRule(
        lambda a: a.is_streamed and bool(a.parameters.decoder_input_details),
        "`decoder_input_details` == true is not supported when streaming tokens",
    ),
    ValidationRule(
        lambda a: a.best_of != 1 and a.limits.max_best_of == 1,
        "`best_of` != 1 is not allowed for this endpoint",
    ),
    ValidationRule(
        lambda a: not 0 < a.best_of <= a.limits.max_best_of,
        "`best_of` must be > 0 and <= {a.limits.max_best_of}. Given: {a.best_of}",
    ),
    ValidationRule(
        lambda a: a.best_of > 1 and not a.is_sampled, "you must use sampling when `best_of` is > 1"
    ),
    must_be_positive("temperature"),
    must_be_positive("repetition_penalty"),
    ValidationRule(
        lambda a: not -2 <= (a.parameters.frequency_penalty or 0) <= 2,
        "`frequency_penalty` must be >= -2.0 and <= 2.0",
    ),
    must_be_fraction("top_p"),
    must_be_fraction("typical_p"),
    must_be_positive("top_k"),
    must_be_positive("max_new_tokens"),
    ValidationRule(
        lambda a: a.num_stops > a.limits.max_stop_sequences,
        "`stop` supports up to {a.limits.max_stop_sequences} stop sequences. Given: {a.num_stops}",
    ),
    ValidationRule(
        lambda a: a.parameters.seed is not None and a.best_of > 1,
        "`seed` must not be set when `best_of` > 1",
    ),
    ValidationRule(
        lambda a: (a.parameters.seed or 0) > LARGEST_SEED,
        f"`seed` must be <= {LARGEST_SEED}. Given: {{a.parameters.seed}}",
    ),
    ValidationRule(
        lambda a: (a.parameters.top_n_tokens or 0) > a.limits.max_top_n_tokens,
        "`top_n_tokens` must be >= 0 and <= {a.limits.max_top_n_tokens}. Given: {a.parameters.top_n_tokens}",
    ),
    ValidationRule(lambda a: not a.inputs, "`inputs` cannot be empty"),
    ValidationRule(
        lambda a: a.parameters.truncate is not None and not 0 < a.parameters.truncate <= a.max_truncate,
        "`truncate` must be strictly positive and less than {a.max_truncate}. Given: {a.parameters.truncate}",
    ),
    ValidationRule(
        lambda a: a.served is None,
        "`adapter_id` must be an adapter or model of GET /v1/models. Given: {a.adapter_id}",
    ),
    ValidationRule(
        lambda a: a.parameters.grammar is not None and a.limits.disable_grammar_support,
        "grammar is not supported",
    ),
)


def check(request: TgiRequest) -> None:
    """Raise InvalidInput for the first broken rule."""
    for rule in RULES:
        if rule.is_broken(request):
            raise InvalidInput(rule.message.format(a=request))


def reword_error(error: ServerError, request: GenerationRequest, context: int | None) -> ServerError:
    """The backend's error with TGI's message; unchanged if TGI has none."""
    match error:
        case MaxTokensTooLarge():
            return InvalidInput(TOTAL.format(error.limit, error.num_prompt_tokens, error.requested_tokens))
        case TooLong(unit="tokens"):
            return _too_long(error, (request.max_tokens or 0) if request.reject_if_too_long else 0, context)
        case NotFound() if request.adapter:  # unloaded meanwhile
            return InvalidInput(error.message)
        case BadRequest(field="response_format") if request.constraint:
            prefix = GRAMMAR_ERRORS.get(request.constraint.kind, GRAMMAR_ERROR)
            return InvalidInput(prefix + error.rule.partition(": ")[2])
        case _:
            return error


def _too_long(error: TooLong, max_tokens: int, context: int | None) -> InvalidInput:
    """`max_tokens` must fit after the prompt. As in TGI, the sum is checked before the prompt alone."""
    if context is None:
        return InvalidInput(LENGTH.format(error.limit, error.length))
    if error.length + max_tokens > context:
        return InvalidInput(TOTAL.format(context, error.length, max_tokens))
    return InvalidInput(LENGTH.format(min(error.limit, context - 1), error.length))
