"""Converts a TGI body to a GenerationRequest, and to the options of the response.

Checks grammars. validation.py checks all other values.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from api.body import json_body
from api.tgi.errors import InvalidInput, JsonDataError, JsonSyntaxError
from api.tgi.info_routes import max_input_tokens
from api.tgi.protocol import GenerateParameters, GenerateRequest, Grammar, RegexGrammar, SchemaGrammar
from api.tgi.validation import TgiRequest, check
from inference import untrusted_json
from inference.errors import BadRequest
from inference.models import Models
from inference.sampling import Sampling, Watermark
from inference.served import Served, UnknownAdapter
from inference.types import Constraint, GenerationRequest
from settings.groups import ServerSettings

DEFAULT_PARAMETERS = GenerateParameters(do_sample=True)  # for a body without `parameters`
# Alternatives to request from the backend: TGI also lists tokens that are as probable as the last one listed.
MIN_ALTERNATIVES = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """Options of a response.

    prompt          text in front of the generated text; may be empty
    with_details    include the details
    with_prefill    include the prompt's tokens in the details
    num_top_tokens  how many of the most probable tokens to list at each step
    max_new_tokens  an answer of this many tokens has finish_reason "length", even if a stop string ended it
    """

    prompt: str
    with_details: bool
    with_prefill: bool
    num_top_tokens: int
    max_new_tokens: int | None


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request, and the model or adapter that answers it."""

    served: Served
    request: GenerationRequest

    @property
    def n(self) -> int:
        """How many answers are requested."""
        return self.request.n

    def in_group(self, group: int) -> "ServedRequest":
        return replace(self, request=self.request.in_group(group))


def read_request(struct_type: type[T]) -> T:
    """The body as `struct_type`. Raises JsonSyntaxError or JsonDataError."""
    try:
        value = json_body.read()
    except BadRequest as error:
        raise JsonSyntaxError(error) from None
    try:
        return json_body.to_struct(value, struct_type)
    except BadRequest as error:
        raise JsonDataError(error) from None


def choose_served(body: GenerateRequest, models: Models) -> Served | None:
    """What `adapter_id` names: None if there is nothing; the default model without a name."""
    name = body.parameters.adapter_id if body.parameters else None
    try:
        return models.default if name is None else models.resolve_adapter(name)
    except UnknownAdapter:
        return None


def to_served_request(
    body: GenerateRequest, settings: ServerSettings, models: Models, *, is_streamed: bool
) -> ServedRequest:
    """Raises InvalidInput. Requests logprobs only if returned or needed for best_of: they cost time."""
    parameters = effective_parameters(body)
    named = choose_served(body, models)
    served = named or models.default
    max_input = max_input_tokens(served.backend.info(), settings)
    check(TgiRequest(body.inputs, parameters, settings, max_input, is_streamed, named))
    best_of = parameters.best_of or 1
    num_alternatives = max(parameters.top_n_tokens, MIN_ALTERNATIVES) if parameters.top_n_tokens else 0
    with_logprobs = is_streamed or needs_details(parameters) or best_of > 1
    request = GenerationRequest(
        prompt=body.inputs,
        add_special_tokens=body.add_special_tokens,
        sampling=_parse_sampling(parameters, settings),
        truncate=parameters.truncate,
        max_tokens=max_new_tokens(parameters, settings),
        reject_if_too_long=parameters.max_new_tokens is not None,
        stop=tuple(parameters.stop or ()),
        include_stop_str_in_output=True,
        stop_at_token_end=True,
        constraint=parse_grammar(parameters.grammar),
        n=best_of,
        logprobs=num_alternatives if with_logprobs else None,
        logprobs_are_optional=with_logprobs and best_of == 1 and not num_alternatives,
        processed_logprobs=True,
        prompt_logprobs=0 if parameters.decoder_input_details and settings.enable_prefill_logprobs else None,
        deadline=settings.request_timeout_s,
        adapter=served.adapter,
    )
    return ServedRequest(served, request)


def response_options(
    body: GenerateRequest, settings: ServerSettings, *, include_prompt: bool
) -> ResponseOptions:
    """`include_prompt` is the default of return_full_text."""
    parameters = effective_parameters(body)
    include = include_prompt if parameters.return_full_text is None else parameters.return_full_text
    return ResponseOptions(
        prompt=body.inputs if include else "",
        with_details=needs_details(parameters),
        with_prefill=bool(parameters.decoder_input_details) and settings.enable_prefill_logprobs,
        num_top_tokens=parameters.top_n_tokens or 0,
        max_new_tokens=max_new_tokens(parameters, settings),
    )


def effective_parameters(body: GenerateRequest) -> GenerateParameters:
    return DEFAULT_PARAMETERS if body.parameters is None else body.parameters


def max_new_tokens(parameters: GenerateParameters, settings: ServerSettings) -> int | None:
    return settings.default_max_tokens if parameters.max_new_tokens is None else parameters.max_new_tokens


def needs_details(parameters: GenerateParameters) -> bool:
    return bool(parameters.details or parameters.decoder_input_details)


def _parse_sampling(parameters: GenerateParameters, settings: ServerSettings) -> Sampling:
    """Greedy unless do_sample or an effective temperature, top_k, top_p or typical_p requests sampling."""
    temperature = 1.0 if parameters.temperature is None else parameters.temperature
    is_sampled = (
        parameters.do_sample
        or temperature != 1
        or parameters.top_k
        or parameters.top_p
        or parameters.typical_p
    )
    watermark = (
        Watermark(settings.watermark_gamma, settings.watermark_delta) if parameters.watermark else None
    )
    return Sampling(
        greedy=not is_sampled,
        temperature=temperature,
        top_k=parameters.top_k or 0,
        top_p=parameters.top_p or 1.0,
        typical_p=parameters.typical_p or 1.0,
        repetition_penalty=parameters.repetition_penalty or 1.0,
        tgi_frequency_penalty=parameters.frequency_penalty or 0.0,
        watermark=watermark,
        seed=parameters.seed,
    )


def parse_grammar(grammar: Grammar | None) -> Constraint | None:
    """Raises InvalidInput. The backend compiles schemas and patterns, and refuses invalid ones."""
    match grammar:
        case None:
            return None
        case RegexGrammar():
            return Constraint("regex", grammar.value)
        case SchemaGrammar():
            return _schema_constraint(grammar.value.schema)
        case _:
            return _schema_constraint(_parse_schema(grammar.value))


def _parse_schema(value: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        schema = untrusted_json.parse_json(value)
    except ValueError as error:
        raise InvalidInput(f"grammar is not valid: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidInput("grammar is not valid: a JSON schema is an object")
    return schema


def _schema_constraint(schema: dict[str, Any]) -> Constraint:
    """Adds `"type": "object"`: without a type, JSON Schema also allows strings and numbers."""
    if "properties" not in schema:
        raise InvalidInput("grammar is not valid: Grammar must have a 'properties' field")
    return Constraint("json_schema", {"type": "object"} | schema)
