"""What a body must keep to, in vLLM's words: each field's range, and which fields go together.

Plain tables over the bodies' fields, checked in their order, before anything else is made of a body.
"""

from collections.abc import Callable
from typing import Any

from api.openai.bodies import ChatBody, CompletionBody, GeneratingBody
from api.openai.errors import Refused, WrongBody

Holds = Callable[[Any], bool]
Breaks = Callable[[Any], Any]

# Field, what its value must be, and how that is said.
RANGES: tuple[tuple[str, Holds, str], ...] = (
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

MAX_LOGPROBS = 20  # alternatives to a token, as many as OpenAI tells, and vLLM unless it is set up otherwise

# Fields that do not go together, or that this server does not have.
UNFIT: tuple[tuple[Breaks, str], ...] = (
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
UNFIT_COMPLETION: tuple[tuple[Breaks, str], ...] = (
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
UNFIT_CHAT: tuple[tuple[Breaks, str], ...] = (
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
ABSENT: tuple[tuple[Breaks, str], ...] = (
    (lambda body: getattr(body, "suffix", None) is not None, "suffix is not currently supported"),
    (lambda body: body.use_beam_search, "use_beam_search is not supported: answers are sampled, or greedy"),
    (lambda body: body.logits_processors, "logits_processors are not supported"),
    (lambda body: body.priority, "Got priority {0.priority} but priority scheduling is not enabled"),
    (
        lambda body: getattr(body, "chat_template", None),
        "chat_template is not taken from requests: the model's own is used",
    ),
)


def check(body: GeneratingBody) -> None:
    """Raises WrongBody or Refused for the first rule that the body breaks."""
    kinds = {CompletionBody: UNFIT_COMPLETION, ChatBody: UNFIT_CHAT}
    for breaks, message in UNFIT + kinds[type(body)]:
        if breaks(body):
            raise WrongBody(message)
    for breaks, message in ABSENT:
        if breaks(body):
            raise Refused(message.format(body))
    for field, holds, rule in RANGES:
        value = getattr(body, field)
        if value is not None and not holds(value):
            raise Refused(f"{field} {rule}, got {value}.", field)
    _check_logprobs(body)
    _check_lengths(body)
    _check_texts(body)
    _check_answers(body)


def asked(body: GeneratingBody) -> int | None:
    """The max_tokens that the body names, by either name."""
    newer = getattr(body, "max_completion_tokens", None)
    return body.max_tokens if newer is None else newer


def _check_logprobs(body: GeneratingBody) -> None:
    fields = {"sample": "logprobs" if isinstance(body, CompletionBody) else "top_logprobs"}
    for kind, field in (fields | {"prompt": "prompt_logprobs"}).items():
        if (getattr(body, field) or 0) > MAX_LOGPROBS:
            rule = f"Requested {kind} logprobs of {getattr(body, field)}, which is greater than max allowed"
            raise Refused(f"{rule}: {MAX_LOGPROBS}", field)


def _check_lengths(body: GeneratingBody) -> None:
    """A completion that echoes may have no tokens: then its prompt alone is scored."""
    most = asked(body)
    scores = isinstance(body, CompletionBody) and body.echo
    if most is not None and most < (0 if scores else 1):
        raise Refused(f"max_tokens must be at least 1, got {most}.", "max_tokens")
    if most is not None and (body.min_tokens or 0) > most:
        rule = f"min_tokens must be less than or equal to max_tokens={most}, got {body.min_tokens}."
        raise Refused(rule, "min_tokens")


def _check_texts(body: GeneratingBody) -> None:
    if body.stop is not None and "" in ([body.stop] if isinstance(body.stop, str) else body.stop):
        raise Refused("stop cannot contain an empty string.", "stop")
    if "" in (body.bad_words or ()):
        raise Refused("bad_words cannot contain an empty string.", "bad_words")
    if body.allowed_token_ids == []:
        raise Refused("allowed_token_ids is not None and empty!", "allowed_token_ids")


def _check_answers(body: GeneratingBody) -> None:
    n, best_of = body.n or 1, body.best_of
    greedy = body.temperature == 0
    if greedy and n > 1:
        raise Refused(f"n must be 1 when using greedy sampling, got {n}.", "n")
    if best_of is None:
        return
    if best_of < n:
        rule = f"best_of must be greater than or equal to n, got n={n} and best_of={best_of}."
        raise Refused(rule, "best_of")
    if greedy and best_of > 1:
        raise Refused(f"best_of must be 1 when using greedy sampling, got {best_of}.", "best_of")
    if body.stream and best_of > n:
        raise Refused("best_of must equal n when stream=True: the best answer is known at the end", "best_of")
