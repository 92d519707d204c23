"""Converts a request body to GenerationRequests, one per prompt.

Reads the body and converts sampling parameters. validation.py has the rules for the fields. Errors are raised
before the backend is called.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from flask import request

from api.body.json_body import read_struct
from api.body.large_json import WHOLE_BODY
from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from api.openai.protocol.generation import CommonRequest
from api.openai.requests.generation_config import apply_generation_config
from api.openai.requests.messages import parse_messages, parse_tools
from api.openai.requests.response_format import (
    FORMAT_FIELDS,
    NO_FORMAT,
    parse_constraint,
    structured_constraint,
)
from api.openai.requests.tool_choice import allowed_tools, forces_named_tool, parse_tool_choice
from api.openai.requests.validation import check, requested_max_tokens
from api.wsgi_environ import BATCH_CREATOR
from inference.backend_info import ModelInfo
from inference.errors import BadRequest
from inference.sampling import Sampling
from inference.types import GenerationRequest, TemplateOptions
from settings.groups import ServerSettings

DEFAULT_COMPLETION_TOKENS = 16  # default max_tokens of a completion in OpenAI's API and vLLM
MAX_PROMPTS = 2048  # prompts in one request; OpenAI's limit for embeddings
MAX_BIAS = 100.0  # a bias is clamped to ±100, OpenAI's limit
NOT_JSON = "Unsupported Media Type: Only 'application/json' is allowed"
TOOLS_OR_CONSTRAINT = "You can only either use constraints for structured outputs or tools, not both."
MIXED = "must be text, token ids, or a list of either"

T = TypeVar("T")


def read_request(struct_type: type[T], strict: bool = False) -> T:
    """The request's JSON body as `struct_type`. Raises InvalidBody.

    strict: numbers and booleans have their own types, as in OpenAI's API; else they may be strings, and
    booleans 0 or 1, as in vLLM.

    A body without a content type is read as JSON. Other content types are refused: pages of other sites can
    send forms and plain text without a CORS preflight.
    """
    if request.mimetype and not request.is_json:
        raise InvalidBody(NOT_JSON)
    try:
        return read_struct(struct_type, strict)
    except BadRequest as error:
        raise InvalidBody(error.message, "" if error.field == WHOLE_BODY else error.field) from None


def completion_requests(
    body: CompletionRequest, info: ModelInfo, settings: ServerSettings
) -> list[GenerationRequest]:
    body = apply_generation_config(body)
    check(body)
    max_tokens = DEFAULT_COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    generation_request = _request_without_prompt(body, body.logprobs, max_tokens, info, settings)
    if body.echo and body.logprobs is not None:
        num_logprobs = max(body.logprobs, body.prompt_logprobs or 0)
        generation_request = replace(generation_request, prompt_logprobs=num_logprobs)
    prompts = split_prompts(body.prompt or "", "prompt", settings.max_client_batch_size)
    if body.output_token_ids and len(prompts) > 1:
        rule = f"output_token_ids are the start of one answer: send one prompt, got {len(prompts)}"
        raise InvalidParameter(rule, "output_token_ids")
    return [replace(generation_request, prompt=prompt) for prompt in prompts]


def chat_request(
    body: ChatCompletionRequest,
    info: ModelInfo,
    settings: ServerSettings,
    field: str = "messages",
    sent_tools: Sequence[Mapping[str, Any]] = (),
) -> GenerationRequest:
    """Raises InvalidBody and InvalidParameter.

    field       the conversation's field in error messages
    sent_tools  body.tools as the client's JSON has them, if it has them
    """
    body = apply_generation_config(body)
    check(body)
    max_tokens = requested_max_tokens(body)
    if max_tokens is None:
        max_tokens = settings.default_max_tokens
    num_logprobs = (body.top_logprobs or 0) if body.logprobs else None
    if body.tool_choice is not None and forces_named_tool(body) and structured_constraint(body):
        raise InvalidBody(TOOLS_OR_CONSTRAINT, "structured_outputs")
    return replace(
        _request_without_prompt(body, num_logprobs, max_tokens, info, settings),
        prompt=parse_messages(body.messages, field),
        template=make_template(
            body.add_generation_prompt,
            body.continue_final_message,
            _template_arguments(body),
            body.reasoning_effort,
        ),
        tools=parse_tools(body.tools, sent_tools) if body.tools else (),
        tool_choice="auto" if body.tool_choice is None else parse_tool_choice(body),
        allowed_tools=None if body.tool_choice is None else allowed_tools(body),
        parallel_calls=body.parallel_tool_calls is not False,
        separate_reasoning=body.separate_reasoning is not False and body.reasoning_format != "none",
    )


def split_prompts(
    value: str | Sequence[int | str | list[int]], field: str, max_prompts: int = MAX_PROMPTS
) -> list[str | list[int]]:
    """A list of at least one prompt (text or token ids) from one prompt or several. Raises InvalidBody."""
    if isinstance(value, str):
        return [value]
    if all(isinstance(each, int) for each in value):
        return [cast(list[int], list(value))]
    if any(isinstance(each, int) for each in value):
        raise InvalidBody(f"{field} {MIXED}: it mixes ids with other prompts", field)
    if not all(value):
        raise InvalidBody(f"{field} {MIXED}: an item is empty", field)
    if len(value) > max_prompts:
        raise InvalidBody(f"{field} may hold at most {max_prompts} prompts, got {len(value)}", field)
    return cast(list[str | list[int]], list(value))


def make_template(
    add_generation_prompt: bool | None,
    continue_final_message: bool | None,
    arguments: Mapping[str, Any] | None,
    reasoning_effort: str | None = None,
) -> TemplateOptions:
    """By default, add_generation_prompt is true unless the last message is continued."""
    return TemplateOptions(
        not continue_final_message if add_generation_prompt is None else add_generation_prompt,
        bool(continue_final_message),
        arguments or {},
        reasoning_effort,
    )


def _template_arguments(body: ChatCompletionRequest) -> dict[str, Any]:
    documents = {} if body.documents is None else {"documents": body.documents}
    return documents | (body.chat_template_kwargs or {})


def _request_without_prompt(
    body: CommonRequest,
    logprobs: int | None,
    max_tokens: int | None,
    info: ModelInfo,
    settings: ServerSettings,
) -> GenerationRequest:
    """A GenerationRequest with an empty prompt. Requests logprobs if best_of ranks the answers."""
    best_of = body.best_of or body.n or 1
    picks_best = best_of > (body.n or 1)
    if body.prompt_logprobs is not None and not settings.enable_prefill_logprobs:
        raise InvalidParameter(
            "prompt_logprobs are disabled: ENABLE_PREFILL_LOGPROBS is off", "prompt_logprobs"
        )
    if body.cache_salt == "":
        raise InvalidParameter("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    sampling = parse_sampling(body, settings.default_temperature)
    in_background = BATCH_CREATOR in request.environ  # it waits for others, and so has no REQUEST_TIMEOUT
    return GenerationRequest(
        prompt="",
        sampling=sampling,
        add_special_tokens=body.add_special_tokens,
        truncate=_max_prompt_tokens(body.truncate_prompt_tokens, max_tokens, info),
        max_tokens=max_tokens,
        reject_if_too_long=True,
        min_tokens=body.min_tokens or 0,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        include_stop_str_in_output=bool(body.include_stop_str_in_output),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        bad_words=tuple(body.bad_words or ()),
        show_special=body.skip_special_tokens is False,
        constraint=parse_constraint(body, settings) if FORMAT_FIELDS(body) != NO_FORMAT else None,
        n=1 if sampling.greedy else best_of,  # greedy answers are equal: RepeatedAnswers writes them n times
        logprobs=0 if picks_best and logprobs is None else logprobs,
        prompt_logprobs=body.prompt_logprobs,
        cache_salt=body.cache_salt or "",
        output_token_ids=tuple(body.output_token_ids or ()),
        deadline=earliest(None if in_background else settings.request_timeout_s, body.max_time),
        in_background=in_background,
    )


def earliest(*deadlines: float | None) -> float | None:
    return min((each for each in deadlines if each is not None), default=None)


def _max_prompt_tokens(truncate: int | None, max_tokens: int | None, info: ModelInfo) -> int | None:
    """GenerationRequest.truncate for a body's truncate_prompt_tokens: -1 leaves room for max_tokens.

    With an unknown context, -1 has no effect.
    """
    if truncate != -1:
        return truncate
    return None if info.context is None else max(1, info.context - max(1, max_tokens or 0))


def parse_sampling(body: CommonRequest, temperature: float) -> Sampling:
    """`temperature` is the default; 0 is greedy. Raises InvalidParameter."""
    effective_temperature = _or_default(body.temperature, temperature)
    return Sampling(
        greedy=effective_temperature == 0,
        temperature=effective_temperature or 1.0,
        top_k=max(0, body.top_k or 0),
        top_p=_or_default(body.top_p, 1.0),
        min_p=_or_default(body.min_p, 0.0),
        repetition_penalty=_or_default(body.repetition_penalty, 1.0),
        presence_penalty=_or_default(body.presence_penalty, 0.0),
        frequency_penalty=_or_default(body.frequency_penalty, 0.0),
        logit_bias=_parse_logit_bias(body.logit_bias) if body.logit_bias else {},
        allowed_token_ids=None if body.allowed_token_ids is None else frozenset(body.allowed_token_ids),
        eos_allowed=body.allowed_token_ids is None,
        seed=body.seed,
    )


def _or_default(value: int | float | None, default: float) -> float:
    """The value as a float; JSON integers above the largest float are clamped to it."""
    return default if value is None else float(min(value, sys.float_info.max))


def _parse_logit_bias(logit_bias: dict[str, float] | list[float] | None) -> dict[int, float]:
    if not isinstance(logit_bias, dict):
        return {}
    if not all(map(math.isfinite, logit_bias.values())):
        raise InvalidParameter("logit_bias must hold finite numbers.", "logit_bias")
    if others := [key for key in logit_bias if not _is_integer(key)]:
        raise InvalidParameter(
            "Found token_id in logit_bias that is not an integer or string representing an integer: "
            + ", ".join(repr(key[:40]) for key in others[:10]),
            "logit_bias",
        )
    return {int(id): max(-MAX_BIAS, min(MAX_BIAS, value)) for id, value in logit_bias.items()}


def _is_integer(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
