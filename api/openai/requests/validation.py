"""The rules for a body, with vLLM's messages: ranges, fields that exclude each other, unsupported fields.

Checked in order before the body is converted. Rules of fields that are not set are skipped.
"""

import math
from typing import Any

from api.openai.errors import InvalidBody, InvalidParameter
from api.openai.protocol.chat import ChatCompletionRequest
from api.openai.protocol.completion import CompletionRequest
from inference.validation import MAX_CHOICES

Body = ChatCompletionRequest | CompletionRequest

ABOVE_ZERO = math.ulp(0.0)  # the smallest positive float

# (field, lowest and highest valid value, the rule in words)
RANGES: tuple[tuple[str, float, float, str], ...] = (
    ("n", 1, math.inf, "must be at least 1"),
    ("presence_penalty", -2, 2, "must be in [-2, 2]"),
    ("frequency_penalty", -2, 2, "must be in [-2, 2]"),
    ("repetition_penalty", ABOVE_ZERO, math.inf, "must be greater than zero"),
    ("temperature", 0, math.inf, "must be non-negative"),
    ("top_p", ABOVE_ZERO, 1, "must be in (0, 1]"),
    ("top_k", -1, math.inf, "must be 0 (disable), or at least 1"),
    ("min_p", 0, 1, "must be in [0, 1]"),
    ("min_tokens", 0, math.inf, "must be greater than or equal to 0"),
    ("seed", -(2**63), 2**63 - 1, "must be an integer of 64 bits"),
    ("max_time", ABOVE_ZERO, 1e9, "must be more than 0 and at most 1e9 seconds"),
)

MAX_LOGPROBS = 20  # limit of alternatives per token: OpenAI's, and vLLM's default

# (field, values that have no effect, error message for other values)
UNSUPPORTED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("suffix", (None,), "suffix is not currently supported"),
    ("use_beam_search", (None, False), "use_beam_search is not supported: use sampling or greedy decoding"),
    ("logits_processors", (None, []), "logits_processors are not supported"),
    ("logprob_token_ids", (None, []), "logprob_token_ids is not supported: use top_logprobs or logprobs"),
    ("truncation_side", (None, "left"), "truncation_side must be left: the prompt's last tokens are kept"),
    ("priority", (None, 0), "Got priority {0.priority} but priority scheduling is not enabled"),
    ("grammar_lazy", (None, False), "grammar_lazy is not supported: a grammar applies from the first token"),
    ("structural_tag", (None, ""), "structural_tag is not supported: use grammar or json_schema"),
    (
        "reasoning_format",
        (None, "auto", "deepseek", "none"),
        "reasoning_format must be auto, deepseek or none, got {0.reasoning_format}",
    ),
    ("chat_template", (None, ""), "chat_template is not supported: the model's own template is used"),
)


def check(body: Body) -> None:
    """Raise InvalidBody or InvalidParameter for the first rule that the body breaks."""
    _check_conflicts(body)
    for field, accepted, message in UNSUPPORTED:
        if getattr(body, field, None) not in accepted:
            raise InvalidParameter(message.format(body))
    for field, low, high, rule in RANGES:
        value = getattr(body, field)
        if value is not None and not low <= value <= high:
            raise InvalidParameter(f"{field} {rule}, got {value}.", field)
    truncate = body.truncate_prompt_tokens
    if truncate is not None and truncate != -1 and truncate < 1:
        empty = "The decoder prompt cannot be empty: " if truncate == 0 else ""  # vLLM's words for 0
        rule = f"{empty}truncate_prompt_tokens must be -1, or at least 1, got {truncate}."
        raise InvalidParameter(rule, "truncate_prompt_tokens")
    if body.logprobs or body.prompt_logprobs:
        _check_logprobs(body)
    _check_lengths(body)
    if body.stop is not None or body.bad_words or body.allowed_token_ids is not None:
        _check_texts(body)
    if body.n is not None or body.best_of is not None:
        _check_best_of(body)


def _check_conflicts(body: Body) -> None:
    if body.stream_options and not body.stream:
        raise InvalidBody("Stream options can only be defined when `stream=True`.")
    if body.prompt_logprobs and body.stream:
        raise InvalidBody("`prompt_logprobs` are not available when `stream=True`.")
    if (body.prompt_logprobs or 0) < 0:
        raise InvalidBody("`prompt_logprobs` must be a positive value.")
    if isinstance(body, ChatCompletionRequest):
        _check_chat_conflicts(body)
    else:
        _check_completion_conflicts(body)


def _check_chat_conflicts(body: ChatCompletionRequest) -> None:
    if (body.top_logprobs or 0) < 0:
        raise InvalidBody("`top_logprobs` must be a positive value.")
    if body.top_logprobs and not body.logprobs:
        raise InvalidBody("when using `top_logprobs`, `logprobs` must be set to true.")
    if body.continue_final_message and body.add_generation_prompt:
        raise InvalidBody("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")


def _check_completion_conflicts(body: CompletionRequest) -> None:
    if (body.logprobs or 0) < 0:
        raise InvalidBody("`logprobs` must be a positive value.")
    if not body.prompt:
        raise InvalidBody("Either prompt or prompt_embeds must be provided and non-empty.")
    if body.prompt_embeds is not None:
        raise InvalidBody("prompt_embeds is not supported: send text or token ids")


def requested_max_tokens(body: Body) -> int | None:
    """max_completion_tokens if set, else max_tokens."""
    newer = getattr(body, "max_completion_tokens", None)
    return body.max_tokens if newer is None else newer


def _check_logprobs(body: Body) -> None:
    fields = {"sample": "logprobs" if isinstance(body, CompletionRequest) else "top_logprobs"}
    for kind, field in (fields | {"prompt": "prompt_logprobs"}).items():
        if (getattr(body, field) or 0) > MAX_LOGPROBS:
            rule = f"Requested {kind} logprobs of {getattr(body, field)}, which is greater than max allowed"
            raise InvalidParameter(f"{rule}: {MAX_LOGPROBS}", field)


def _check_lengths(body: Body) -> None:
    """max_tokens 0 is allowed with echo: the response then has only the prompt's logprobs."""
    max_tokens = requested_max_tokens(body)
    only_echoes = isinstance(body, CompletionRequest) and body.echo
    if max_tokens is not None and max_tokens < (0 if only_echoes else 1):
        raise InvalidParameter(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        rule = f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}."
        raise InvalidParameter(rule, "min_tokens")


def _check_texts(body: Body) -> None:
    if body.stop is not None and "" in ([body.stop] if isinstance(body.stop, str) else body.stop):
        raise InvalidParameter("stop cannot contain an empty string.", "stop")
    if "" in (body.bad_words or ()):
        raise InvalidParameter("bad_words cannot contain an empty string.", "bad_words")
    if body.allowed_token_ids == []:
        raise InvalidParameter("allowed_token_ids is not None and empty!", "allowed_token_ids")


def _check_best_of(body: Body) -> None:
    n, best_of = body.n or 1, body.best_of
    field, num_answers = ("n", n) if best_of is None else ("best_of", best_of)
    if num_answers > MAX_CHOICES:
        raise InvalidParameter(f"{field} must be at most {MAX_CHOICES}, got {num_answers}.", field)
    if best_of is None:
        return
    if best_of < n:
        rule = f"best_of must be greater than or equal to n, got n={n} and best_of={best_of}."
        raise InvalidParameter(rule, "best_of")
    if body.stream and best_of > n:
        raise InvalidParameter(
            "best_of must equal n when stream=True: only complete answers are ranked", "best_of"
        )
