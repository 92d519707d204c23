"""Validates a request: the range of each field, before anything is computed.

Knows plain values only. A dialect may be stricter, never more permissive. The checks of a feature are entered
only by a request that uses it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inference.errors import BadRequest
from inference.prompt_scoring import PromptScoring
from inference.sampling import WARPER_NAMES, PenaltyWindow, Sampling
from inference.types import GenerationRequest

MAX_STOPS = 64
MAX_CHARS = 1_000  # in a stop string or bad word
MAX_CHOICES = 64
MAX_TOOLS = 1_000
MAX_ALTERNATIVES = 20
MAX_CANDIDATES = 64  # tokens to score at a place of the prompt
MAX_BAD_WORDS = 1_000  # texts, in every dialect
MAX_BAD_WORD_RUNS = 4 * MAX_BAD_WORDS  # a text has up to three usual tokenizations
MAX_BAD_WORD_TOKENS = 1_000
MAX_WINDOW_TOKENS = 1_000_000
MAX_DETOKENIZE_IDS = 100_000  # in one call, unless the context is longer
MIN_PENALTY, MAX_PENALTY = 1e-10, 10**10  # logits stay finite in float32, even at the lowest temperature

# (field as the error names it, the object that has it, attribute of the object, lowest value, highest value)
RANGES: tuple[tuple[str, str, str, float, float], ...] = (
    ("temperature", "sampling", "temperature", 0, 100),
    ("top_p", "sampling", "top_p", math.ulp(0.0), 1),
    ("top_k", "sampling", "top_k", 0, 2**31 - 1),
    ("min_p", "sampling", "min_p", 0, 1),
    ("typical_p", "sampling", "typical_p", math.ulp(0.0), 1),
    ("tfs", "sampling", "tfs", 0, 1),
    ("top_a", "sampling", "top_a", 0, 1),
    ("penalty_alpha", "sampling", "penalty_alpha", 0, 1),
    ("repetition_penalty", "sampling", "repetition_penalty", MIN_PENALTY, MAX_PENALTY),
    ("repetition_penalty", "penalty_window", "penalty", MIN_PENALTY, MAX_PENALTY),
    ("repetition_penalty_range", "penalty_window", "length", 0, math.inf),
    ("repetition_penalty_slope", "penalty_window", "slope", 0, MAX_PENALTY),
    ("presence_penalty", "sampling", "presence_penalty", -2, 2),
    ("frequency_penalty", "sampling", "frequency_penalty", -2, 2),
    ("frequency_penalty", "sampling", "tgi_frequency_penalty", -2, 2),
    ("no_repeat_ngram_size", "sampling", "no_repeat_ngram_size", 0, math.inf),
    ("watermark_gamma", "watermark", "gamma", math.ulp(0.0), 1),
    ("watermark_delta", "watermark", "delta", -100, 100),
    ("seed", "sampling", "seed", -(2**63), 2**64 - 1),
    ("n", "request", "n", 1, MAX_CHOICES),
    ("max_tokens", "request", "max_tokens", 0, math.inf),
    ("min_tokens", "request", "min_tokens", 0, math.inf),
    ("truncate", "request", "truncate", 1, math.inf),
    ("logprobs", "request", "logprobs", 0, MAX_ALTERNATIVES),
    ("prompt_logprobs", "request", "prompt_logprobs", 0, MAX_ALTERNATIVES),
    ("deadline", "request", "deadline", math.ulp(0.0), math.inf),
)
UNIT_INTERVAL = "must be in (0, 1]"
RULES = {
    "top_p": UNIT_INTERVAL,
    "typical_p": UNIT_INTERVAL,
    "watermark_gamma": UNIT_INTERVAL,
    "deadline": "must be more than 0 seconds",
}


def limit_answers(request: GenerationRequest, max_tokens: int | None) -> GenerationRequest:
    """The request with at most so many tokens in an answer, not an error; None: no limit of its own."""
    if max_tokens is None:
        return request
    limit = max_tokens if request.max_tokens is None else min(request.max_tokens, max_tokens)
    least = min(request.min_tokens, limit)
    return replace(request, max_tokens=limit, min_tokens=least, reject_if_too_long=False)


def check_request(request: GenerationRequest, vocab: int) -> None:
    """Raise BadRequest for the first field that breaks its rule. `vocab` is the width of the logits."""
    sampling = request.sampling
    penalty_window, watermark = sampling.penalty_window, sampling.watermark
    objects = {
        "request": request,
        "sampling": sampling,
        "penalty_window": penalty_window,
        "watermark": watermark,
    }
    for field, owner, attribute, low, high in RANGES:
        value = getattr(objects[owner], attribute, None)
        if value is not None and not low <= value <= high:
            rule = f"must be between {low} and {high}" if high < math.inf else f"must be at least {low}"
            raise BadRequest(field, RULES.get(field, rule), value)
    if request.max_tokens is not None and request.min_tokens > request.max_tokens:
        raise BadRequest(
            "min_tokens", f"must not exceed max_tokens ({request.max_tokens})", request.min_tokens
        )
    if len(request.tools) > MAX_TOOLS:
        raise BadRequest("tools", f"may hold at most {MAX_TOOLS}", len(request.tools))
    if request.stop:
        check_texts("stop", request.stop, MAX_STOPS)
    if request.bad_words:
        check_texts("bad_words", request.bad_words, MAX_BAD_WORDS)
    if request.stop_token_ids:
        check_ids("stop_token_ids", request.stop_token_ids, vocab)
    if request.output_token_ids:
        check_output_token_ids(request, vocab)
    if request.prompt_scoring:
        check_prompt_scoring(request.prompt_scoring, len(request.prompt) - 1, vocab)
    if sampling.logit_bias:
        check_logit_bias(sampling.logit_bias, vocab)
    if sampling.bad_words_ids or sampling.banned_first or sampling.allowed_token_ids:
        check_banned_tokens(sampling, vocab)
    if penalty_window:
        check_penalty_window(penalty_window, vocab)
    if sampling.warper_order:
        check_order(sampling.warper_order)


def check_texts(field: str, texts: tuple[str, ...], max_count: int) -> None:
    if len(texts) > max_count:
        raise BadRequest(field, f"may hold at most {max_count} strings", len(texts))
    for text in texts:
        if not 0 < len(text) <= MAX_CHARS:
            raise BadRequest(field, f"needs strings of 1 to {MAX_CHARS} characters", text)


def check_ids(field: str, ids: Any, vocab: int) -> None:
    for id in ids:
        if type(id) is not int or not 0 <= id < vocab:
            raise BadRequest(field, f"has a token id out of vocabulary (0 to {vocab - 1})", id)


def check_output_token_ids(request: GenerationRequest, vocab: int) -> None:
    num_ids, max_tokens = len(request.output_token_ids), request.max_tokens
    if request.n != 1:
        raise BadRequest("output_token_ids", "are the start of one answer: set n to 1", request.n)
    if request.sampling.penalty_alpha:
        raise BadRequest("output_token_ids", "are not supported with penalty_alpha: leave one of both out")
    if max_tokens is not None and num_ids > max_tokens:
        raise BadRequest("output_token_ids", f"may hold at most max_tokens ({max_tokens}) ids", num_ids)
    check_ids("output_token_ids", request.output_token_ids, vocab)


def check_prompt_scoring(scoring: PromptScoring, num_places: int, vocab: int) -> None:
    """The prompt is token ids; each token after the first is a place."""
    if scoring.candidates and len(scoring.candidates) != num_places:
        rule = f"must have a list for each of the {num_places} tokens after the first"
        raise BadRequest("target_prompt_logprobs", rule, len(scoring.candidates))
    for ids in scoring.candidates:
        if len(ids) > MAX_CANDIDATES:
            raise BadRequest("target_prompt_logprobs", f"may have {MAX_CANDIDATES} tokens a place", len(ids))
        check_ids("target_prompt_logprobs", ids, vocab)
    if not 0 <= scoring.num_draws <= MAX_ALTERNATIVES:
        rule = f"must be between 0 and {MAX_ALTERNATIVES}"
        raise BadRequest("prompt_alt_tokens_k", rule, scoring.num_draws)


def check_logit_bias(logit_bias: Mapping[int, float], vocab: int) -> None:
    """Raise BadRequest for NaN and +inf. -inf bans a token; +inf would ban all others."""
    check_ids("logit_bias", logit_bias, vocab)
    for id, value in logit_bias.items():
        if math.isnan(value) or value == math.inf:
            raise BadRequest("logit_bias", f"must be finite or -inf: token {id} has {value}")


def check_banned_tokens(sampling: Sampling, vocab: int) -> None:
    if len(sampling.bad_words_ids) > MAX_BAD_WORD_RUNS:
        raise BadRequest(
            "bad_words", f"may hold at most {MAX_BAD_WORD_RUNS} runs of tokens", len(sampling.bad_words_ids)
        )
    for run in sampling.bad_words_ids:
        if not 0 < len(run) <= MAX_BAD_WORD_TOKENS:
            raise BadRequest("bad_words", f"needs runs of 1 to {MAX_BAD_WORD_TOKENS} tokens", len(run))
        check_ids("bad_words", run, vocab)
    check_ids("bad_words", sampling.banned_first, vocab)
    check_ids("allowed_token_ids", sampling.allowed_token_ids or (), vocab)


def check_penalty_window(window: PenaltyWindow, vocab: int) -> None:
    """Limit the window's text: it may exceed the context, and each generated token costs a pass over it."""
    if len(window.token_ids) > MAX_WINDOW_TOKENS:
        rule = f"may hold at most {MAX_WINDOW_TOKENS} tokens"
        raise BadRequest("repetition_penalty_prompt", rule, len(window.token_ids))
    check_ids("repetition_penalty_prompt", window.token_ids, vocab)


def check_order(order: tuple[str, ...]) -> None:
    for position, name in enumerate(order):
        if name not in WARPER_NAMES:
            raise BadRequest("warpers_order", f"needs names among {', '.join(WARPER_NAMES)}", name)
        if name in order[:position]:
            raise BadRequest("warpers_order", "may name each warper once", name)
