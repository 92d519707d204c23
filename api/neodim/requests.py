"""From a Neodim body to the server's own request, and what the report will have to say of it.

What a client can get wrong in a body is found here, before anything is generated.
"""

import secrets
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from api.neodim import penalty, words
from api.neodim.bodies import Body, Strings, strings, text
from api.neodim.errors import Unfit
from api.neodim.prompt import Input, read
from api.neodim.ranges import check
from api.neodim.stops import Watch, finder
from api.neodim.texts import Texts
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import BadRequest
from inference.sampling import Sampling, Window
from inference.types import GenerationRequest

# The last release of the Neodim Server: all its fields are served here, and its clients ask for this version.
VERSION = "0.13"

MAX_VERSION_CHARS = 200
SEED_BITS = 48  # of a drawn one: a client that reads numbers as floats can still send it back
MAX_CUTS = 64

# Neodim's names of the warpers, in the order that is its default → their names in Sampling.
WARPERS = {
    "repetition_penalty": "repetition",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical": "typical_p",
    "tfs": "tfs",
    "top_a": "top_a",
}
REST = "*"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a body asks for: `given` to read, `length` tokens to write in each of `sequences`."""

    given: Input
    length: int
    sequences: int
    window: Window | None
    seed: int
    generation: GenerationRequest


def asked(body: Body, texts: Texts, backend: Backend, settings: AppSettings) -> Asked:
    """Raises BadRequest."""
    check_version(body.required_server_version)
    check(body)
    given = read(texts, text(body.preamble), text(body.prompt), budget(body, backend, settings), until(body))
    window = penalty.window(body, given, texts)
    length, sequences = body.generated_tokens_count, body.sequences_count or 1
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed
    generation = GenerationRequest(
        prompt=given.ids,
        sampling=sampling(body, texts, window, seed),
        max_tokens=length,
        min_tokens=min(1, length) if body.can_stop_early else length,
        fits=True,
        n=sequences,
        deadline=settings.deadline_s,
    )
    return Asked(given, length, sequences, window, seed, generation)


def watches(body: Body) -> list[Watch]:
    """Who looks for the stops, one for each sequence. Raises BadRequest."""
    found = finder(strings(body.stop_strings), body.stop_strings_type or "string")
    required = body.stop_strings_required_matches_count or 1
    return [Watch(found, required) for _ in range(body.sequences_count or 1)]


def check_version(required: str | None) -> None:
    required = required or ""
    try:
        if len(required) > MAX_VERSION_CHARS:
            raise InvalidSpecifier
        fits = VERSION in SpecifierSet(required, prereleases=True)
    except ValueError:  # InvalidSpecifier, or a number of too many digits
        rule = 'must be a version specifier as in PEP 440, such as ">=0.13"'
        raise BadRequest("required_server_version", rule, required) from None
    if not fits:
        raise Unfit(f"Requested server version: {required}, current server version: {VERSION}")


def budget(body: Body, backend: Backend, settings: AppSettings) -> int:
    """Tokens that may be read; a total beyond the model's context is taken for the context."""
    room = min(body.max_total_tokens, backend.info().context) - body.generated_tokens_count
    return room if settings.max_input_tokens is None else min(room, settings.max_input_tokens)


def until(body: Body) -> list[str]:
    listed = strings(body.truncate_prompt_until)
    if len(listed) > MAX_CUTS:
        raise BadRequest("truncate_prompt_until", f"may hold at most {MAX_CUTS} strings", len(listed))
    return listed


def sampling(body: Body, texts: Texts, window: Window | None, seed: int) -> Sampling:
    return Sampling(
        temperature=body.temperature or 1.0,
        top_k=body.top_k or 0,
        top_p=share(body.top_p),
        typical_p=share(body.typical),
        tfs=body.tfs or 0.0,
        top_a=body.top_a or 0.0,
        no_repeat_ngram=body.no_repeat_ngram_size or 0,
        window=window,
        banned=words.runs(body.words_blacklist, "words_blacklist", texts),
        banned_first=words.tokens(body.words_blacklist_at_start, "words_blacklist_at_start", texts),
        allowed=words.allowed(body.words_whitelist, texts),
        contrast=body.penalty_alpha or 0.0,
        order=order(body.warpers_order),
        seed=seed,
    )


def share(value: float | None) -> float:
    """0 is off, and so is 1 and what is more."""
    return value if value and value < 1 else 1.0


def order(names: Strings | None) -> tuple[str, ...]:
    """The warpers in the order asked for, the others in the place of "*", or behind; empty: the usual."""
    listed = strings(names)
    if not listed:
        return ()
    for name in listed:
        if name not in WARPERS and name != REST:
            raise BadRequest("warpers_order", f"may name {', '.join(WARPERS)} and {REST}", name)
        if listed.count(name) > 1:
            raise BadRequest("warpers_order", "names one of them twice", name)
    split = listed.index(REST) if REST in listed else len(listed)
    rest = [name for name in WARPERS if name not in listed]
    return tuple(WARPERS[name] for name in (*listed[:split], *rest, *listed[split + 1 :]))
