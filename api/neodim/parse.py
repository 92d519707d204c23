"""Converts a Neodim body to a GenerationRequest, and to the values that the report repeats.

Errors in the body are raised here, before the request is submitted.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from api.neodim.prompt import Ids, ModelInput, PlainTokenizer, build_input
from api.neodim.protocol import NeodimRequest, Strings, to_strings, to_text
from api.neodim.stop_strings import StopTracker, make_finder
from api.neodim.validation import check_ranges, check_version, check_words
from inference.backend import Backend
from inference.errors import BadRequest
from inference.models import Models
from inference.sampling import PenaltyScope, PenaltyWindow, Sampling
from inference.served import Served, UnknownAdapter
from inference.types import GenerationRequest
from settings.groups import ServerSettings

SEED_BITS = 48  # of a random seed: clients that parse JSON numbers as floats read it exactly
MAX_BOUNDARIES = 64  # strings in truncate_prompt_until

# Neodim's warpers in its default order → their names in Sampling.warper_order.
WARPERS = {
    "repetition_penalty": "repetition",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical": "typical_p",
    "tfs": "tfs",
    "top_a": "top_a",
}
OTHER_WARPERS = "*"  # in warpers_order: all warpers that it does not name

# Neodim's README lists "allow", which no release implements. Here it means "expand", which omits no token.
PENALTY_SCOPES: dict[str, PenaltyScope] = {
    "ignore": "ignore",
    "expand": "expand",
    "slide": "slide",
    "allow": "expand",
}


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A Neodim request.

    max_tokens     tokens to generate in each sequence
    num_sequences  answers to generate
    window         the repetition penalty; None: no penalty
    seed           the seed of the body, DEFAULT_SEED, or a random one
    """

    model_input: ModelInput
    max_tokens: int
    num_sequences: int
    window: PenaltyWindow | None
    seed: int
    generation_request: GenerationRequest


def parse_request(
    body: NeodimRequest, tokenizer: PlainTokenizer, backend: Backend, settings: ServerSettings
) -> ParsedRequest:
    """Raises BadRequest; ImpossibleRequest if the input does not fit or the version is not served."""
    check_version(body.required_server_version)
    check_ranges(body)
    model_input = build_input(
        tokenizer,
        to_text(body.preamble),
        to_text(body.prompt),
        input_budget(body, backend, settings),
        truncation_boundaries(body),
    )
    window = penalty_window(body, model_input, tokenizer)
    max_tokens, num_sequences = body.generated_tokens_count, body.sequences_count or 1
    seed = settings.default_seed if body.seed is None else body.seed
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    generation_request = GenerationRequest(
        prompt=model_input.token_ids,
        sampling=parse_sampling(body, tokenizer, window, seed),
        max_tokens=max_tokens,
        min_tokens=min(1, max_tokens) if body.can_stop_early else max_tokens,
        reject_if_too_long=True,
        n=num_sequences,
        deadline=settings.request_timeout_s,
    )
    return ParsedRequest(
        model_input=model_input,
        max_tokens=max_tokens,
        num_sequences=num_sequences,
        window=window,
        seed=seed,
        generation_request=generation_request,
    )


def choose_served(body: NeodimRequest, models: Models) -> Served:
    """What `adapter` names; the default model if it names nothing. Raises BadRequest."""
    if body.adapter is None:
        return models.default
    try:
        return models.resolve_adapter(body.adapter)
    except UnknownAdapter as error:
        raise BadRequest("adapter", "must be an adapter or model of GET /v1/models", error.name) from None


def make_stop_trackers(body: NeodimRequest) -> list[StopTracker]:
    """One tracker of the stop strings per sequence. Raises BadRequest."""
    finder = make_finder(to_strings(body.stop_strings), body.stop_strings_type or "string")
    required = body.stop_strings_required_matches_count or 1
    return [StopTracker(finder, required) for _ in range(body.sequences_count or 1)]


def input_budget(body: NeodimRequest, backend: Backend, settings: ServerSettings) -> int:
    """The limit of the input in tokens; a max_total_tokens above the model's context is lowered to it."""
    context = backend.info().context
    max_total_tokens = body.max_total_tokens if context is None else min(body.max_total_tokens, context)
    max_input = max_total_tokens - body.generated_tokens_count
    return max_input if settings.max_input_tokens is None else min(max_input, settings.max_input_tokens)


def truncation_boundaries(body: NeodimRequest) -> list[str]:
    listed = to_strings(body.truncate_prompt_until)
    if len(listed) > MAX_BOUNDARIES:
        raise BadRequest("truncate_prompt_until", f"may hold at most {MAX_BOUNDARIES} strings", len(listed))
    return listed


def parse_sampling(
    body: NeodimRequest, tokenizer: PlainTokenizer, window: PenaltyWindow | None, seed: int
) -> Sampling:
    return Sampling(
        temperature=body.temperature or 1.0,
        top_k=body.top_k or 0,
        top_p=fraction_or_off(body.top_p),
        typical_p=fraction_or_off(body.typical),
        tfs=body.tfs or 0.0,
        top_a=body.top_a or 0.0,
        no_repeat_ngram_size=body.no_repeat_ngram_size or 0,
        penalty_window=window,
        bad_words_ids=word_token_ids(body.words_blacklist, "words_blacklist", tokenizer),
        banned_first=word_token_set(body.words_blacklist_at_start, "words_blacklist_at_start", tokenizer),
        allowed_token_ids=allowed_token_ids(body.words_whitelist, tokenizer),
        penalty_alpha=body.penalty_alpha or 0.0,
        warper_order=parse_warpers_order(body.warpers_order),
        seed=seed,
    )


def fraction_or_off(value: float | None) -> float:
    """The fraction, or 1 (off) for None, 0, 1 and values above 1."""
    return value if value and value < 1 else 1.0


def parse_warpers_order(names: Strings | None) -> tuple[str, ...]:
    """Sampling.warper_order: unnamed warpers take the place of "*", or the end. Empty: the default order."""
    listed = to_strings(names)
    if not listed:
        return ()
    for name in listed:
        if name not in WARPERS and name != OTHER_WARPERS:
            raise BadRequest("warpers_order", f"may only name {', '.join(WARPERS)} and {OTHER_WARPERS}", name)
        if listed.count(name) > 1:
            raise BadRequest("warpers_order", "must name each warper at most once", name)
    split = listed.index(OTHER_WARPERS) if OTHER_WARPERS in listed else len(listed)
    others = [name for name in WARPERS if name not in listed]
    return tuple(WARPERS[name] for name in (*listed[:split], *others, *listed[split + 1 :]))


def word_token_ids(words: Strings | None, field: str, tokenizer: PlainTokenizer) -> tuple[Ids, ...]:
    """The token ids of each word, with and without a leading space: their tokens usually differ."""
    listed = to_strings(words)
    check_words(listed, field)
    spellings = [text for word in listed for text in (word, f" {word}") if text]
    encoded = tokenizer.encode_texts(spellings, field) if spellings else []
    return tuple(dict.fromkeys(ids for ids in encoded if ids))


def word_token_set(words: Strings | None, field: str, tokenizer: PlainTokenizer) -> frozenset[int]:
    """The token ids of all words."""
    return frozenset(id for ids in word_token_ids(words, field, tokenizer) for id in ids)


def allowed_token_ids(words: Strings | None, tokenizer: PlainTokenizer) -> frozenset[int] | None:
    """None allows every token. Raises BadRequest for a list without words: it would allow no token."""
    if words is None:
        return None
    token_ids = word_token_set(words, "words_whitelist", tokenizer)
    if not token_ids:
        raise BadRequest("words_whitelist", "bans every word: leave it out or set it to null to allow all")
    return token_ids


def penalty_window(
    body: NeodimRequest, model_input: ModelInput, tokenizer: PlainTokenizer
) -> PenaltyWindow | None:
    """None without a penalty. A penalty of 1 changes no logit, but the report includes its window."""
    if not body.repetition_penalty:
        return None
    penalty_text = tokenizer.strip_special(
        to_text(body.repetition_penalty_prompt), "repetition_penalty_prompt"
    )
    tokens = (
        tokenizer.encode(penalty_text, "repetition_penalty_prompt")
        if penalty_text
        else model_input.prompt_ids
    )
    if body.repetition_penalty_include_preamble:
        tokens = model_input.preamble_ids + tokens
    return PenaltyWindow(
        token_ids=tokens,
        penalty=body.repetition_penalty,
        length=body.repetition_penalty_range or len(tokens),
        slope=body.repetition_penalty_slope or 0.0,
        scope=PENALTY_SCOPES[body.repetition_penalty_include_generated or "slide"],
        clamp_length=bool(body.repetition_penalty_truncate_to_input),
    )


@dataclass(frozen=True, slots=True)
class PenaltyExtent:
    """The tokens that the penalty covers at one step.

    window_length  length of the window in tokens; may exceed the text
    ids            token ids in the window, at most `window_length`
    """

    window_length: int
    ids: Ids


def penalty_extent(window: PenaltyWindow, generated: Sequence[int]) -> PenaltyExtent:
    """The extent at the step after `generated`. Scope "expand" also lengthens a clamped window."""
    window_length = min(window.length, len(window.token_ids)) if window.clamp_length else window.length
    if window.scope == "expand":
        window_length += len(generated)
    ids = window.token_ids if window.scope == "ignore" else (*window.token_ids, *generated)
    return PenaltyExtent(window_length, ids[-window_length:] if window_length else ())
