"""The rules for a body, with vLLM's messages: ranges, fields that exclude each other, unsupported fields.

Tables of rules, checked in order before the body is converted.
"""

from collections.abc import Callable
from typing import Any

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from api.openai.protocol.generation import CommonRequest

IsValid = Callable[[Any], bool]
IsViolated = Callable[[Any], Any]

# (field, whether a value is valid, the rule in words)
RANGES: tuple[tuple[str, IsValid, str], ...] = (
    ("n", lambda n: n >= 1, "must be at least 1"),
    ("presence_penalty", lambda x: -2 <= x <= 2, "must be in [-2, 2]"),
    ("frequency_penalty", lambda x: -2 <= x <= 2, "must be in [-2, 2]"),
    ("repetition_penalty", lambda x: x > 0, "must be greater than zero"),
    ("temperature", lambda x: x >= 0, "must be non-negative"),
    ("top_p", lambda x: 0 < x <= 1, "must be in (0, 1]"),
    ("top_k", lambda n: n >= -1, "must be 0 (disable), or at least 1"),
    ("min_p", lambda x: 0 <= x <= 1, "must be in [0, 1]"),
    ("min_tokens", lambda n: n >= 0, "must be greater than or equal to 0"),
    ("seed", lambda n: -(2**63) <= n < 2**63, "must be an integer of 64 bits"),
    ("truncate_prompt_tokens", lambda n: n == -1 or n >= 1, "must be -1, or at least 1"),
)

MAX_LOGPROBS = 20  # limit of alternatives per token: OpenAI's, and vLLM's default

# (whether the body breaks the rule, error message)
CONFLICTS: tuple[tuple[IsViolated, str], ...] = (
    (
        lambda body: body.stream_options and not body.stream,
        "Stream options can only be defined when `stream=True`.",
    ),
    (
        lambda body: body.prompt_logprobs and body.stream,
        "`prompt_logprobs` are not available when `stream=True`.",
    ),
    (
        lambda body: body.prompt_logprobs is not None and body.prompt_logprobs < 0,
        "`prompt_logprobs` must be a positive value.",
    ),
)
COMPLETION_CONFLICTS: tuple[tuple[IsViolated, str], ...] = (
    (
        lambda body: body.logprobs is not None and body.logprobs < 0,
        "`logprobs` must be a positive value.",
    ),
    (
        lambda body: body.prompt in (None, "", []),
        "Either prompt or prompt_embeds must be provided and non-empty.",
    ),
    (lambda body: body.prompt_embeds is not None, "prompt_embeds is not supported: send text or token ids"),
)
CHAT_CONFLICTS: tuple[tuple[IsViolated, str], ...] = (
    (
        lambda body: body.top_logprobs is not None and body.top_logprobs < 0,
        "`top_logprobs` must be a positive value.",
    ),
    (
        lambda body: body.top_logprobs and not body.logprobs,
        "when using `top_logprobs`, `logprobs` must be set to true.",
    ),
    (
        lambda body: body.continue_final_message and body.add_generation_prompt,
        "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
    ),
)
UNSUPPORTED: tuple[tuple[IsViolated, str], ...] = (
    (lambda body: getattr(body, "suffix", None) is not None, "suffix is not currently supported"),
    (lambda body: body.use_beam_search, "use_beam_search is not supported: use sampling or greedy decoding"),
    (lambda body: body.logits_processors, "logits_processors are not supported"),
    (lambda body: body.priority, "Got priority {0.priority} but priority scheduling is not enabled"),
    (
        lambda body: getattr(body, "chat_template", None),
        "chat_template is not supported: the model's own template is used",
    ),
)


def check(body: CommonRequest, default_temperature: float) -> None:
    """Raise InvalidBody or InvalidParameter for the first rule that the body breaks."""
    conflicts_by_type = {CompletionRequest: COMPLETION_CONFLICTS, ChatCompletionRequest: CHAT_CONFLICTS}
    for is_violated, message in CONFLICTS + conflicts_by_type[type(body)]:
        if is_violated(body):
            raise InvalidBody(message)
    for is_violated, message in UNSUPPORTED:
        if is_violated(body):
            raise InvalidParameter(message.format(body))
    for field, is_valid, rule in RANGES:
        value = getattr(body, field)
        if value is not None and not is_valid(value):
            raise InvalidParameter(f"{field} {rule}, got {value}.", field)
    _check_logprobs(body)
    _check_lengths(body)
    _check_texts(body)
    _check_best_of(body, default_temperature)


def requested_max_tokens(body: CommonRequest) -> int | None:
    """max_completion_tokens if set, else max_tokens."""
    newer = getattr(body, "max_completion_tokens", None)
    return body.max_tokens if newer is None else newer


def _check_logprobs(body: CommonRequest) -> None:
    fields = {"sample": "logprobs" if isinstance(body, CompletionRequest) else "top_logprobs"}
    for kind, field in (fields | {"prompt": "prompt_logprobs"}).items():
        if (getattr(body, field) or 0) > MAX_LOGPROBS:
            rule = f"Requested {kind} logprobs of {getattr(body, field)}, which is greater than max allowed"
            raise InvalidParameter(f"{rule}: {MAX_LOGPROBS}", field)


def _check_lengths(body: CommonRequest) -> None:
    """max_tokens 0 is allowed with echo: the response then has only the prompt's logprobs."""
    max_tokens = requested_max_tokens(body)
    only_echoes = isinstance(body, CompletionRequest) and body.echo
    if max_tokens is not None and max_tokens < (0 if only_echoes else 1):
        raise InvalidParameter(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        rule = f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}."
        raise InvalidParameter(rule, "min_tokens")


def _check_texts(body: CommonRequest) -> None:
    if body.stop is not None and "" in ([body.stop] if isinstance(body.stop, str) else body.stop):
        raise InvalidParameter("stop cannot contain an empty string.", "stop")
    if "" in (body.bad_words or ()):
        raise InvalidParameter("bad_words cannot contain an empty string.", "bad_words")
    if body.allowed_token_ids == []:
        raise InvalidParameter("allowed_token_ids is not None and empty!", "allowed_token_ids")


def _check_best_of(body: CommonRequest, default_temperature: float) -> None:
    n, best_of = body.n or 1, body.best_of
    greedy = (default_temperature if body.temperature is None else body.temperature) == 0
    if greedy and n > 1:
        raise InvalidParameter(f"n must be 1 when using greedy sampling, got {n}.", "n")
    if best_of is None:
        return
    if best_of < n:
        rule = f"best_of must be greater than or equal to n, got n={n} and best_of={best_of}."
        raise InvalidParameter(rule, "best_of")
    if greedy and best_of > 1:
        raise InvalidParameter(f"best_of must be 1 when using greedy sampling, got {best_of}.", "best_of")
    if body.stream and best_of > n:
        raise InvalidParameter(
            "best_of must equal n when stream=True: only complete answers are ranked", "best_of"
        )
