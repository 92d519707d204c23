"""From a TGI body to the server's own GenerationRequest, and to what its reply shall show.

What a client can get wrong is found in validation.py and grammars.py, which are asked here.
"""

from dataclasses import dataclass
from typing import TypeVar

from api import body
from api.settings import AppSettings
from api.tgi.bodies import GenerateBody, Parameters
from api.tgi.errors import Misshapen, Unreadable
from api.tgi.grammars import constraint
from api.tgi.info import most_input
from api.tgi.validation import Asked, check
from inference.errors import BadRequest
from inference.sampling import Sampling, Watermark
from inference.types import GenerationRequest, ModelInfo

UNTOLD = Parameters(do_sample=True)  # what a body without parameters means
ALTERNATIVES = 20  # that any backend has to tell: those as probable as the last one asked for are told, too

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reply shows of an answer.

    prompt   what its text begins with
    details  whether there is more than the text
    prefill  whether the prompt's tokens are among it
    top      how many of the most probable tokens
    limit    tokens after which its end is the limit's, whatever else ended it
    """

    prompt: str
    details: bool
    prefill: bool
    top: int
    limit: int | None


def read(shape: type[T]) -> T:
    """The body; raises Unreadable or Misshapen."""
    try:
        value = body.read()
    except BadRequest as error:
        raise Unreadable(error) from None
    try:
        return body.shaped(value, shape)
    except BadRequest as error:
        raise Misshapen(error) from None


def generation(
    body: GenerateBody, settings: AppSettings, info: ModelInfo, *, streams: bool
) -> GenerationRequest:
    """Raises Invalid. Logprobs, which cost time, are asked for where they are told or decide."""
    p = parameters(body)
    check(Asked(body.inputs, p, settings, most_input(info, settings), streams))
    best_of = p.best_of or 1
    scored = streams or details(p) or best_of > 1
    return GenerationRequest(
        prompt=body.inputs,
        special=body.add_special_tokens,
        sampling=_sampling(p, settings),
        truncate=p.truncate,
        max_tokens=limit(p, settings),
        fits=p.max_new_tokens is not None,
        stop=tuple(p.stop or ()),
        keep_stop=True,
        stop_aligned=True,
        constraint=constraint(p.grammar),
        n=best_of,
        logprobs=_alternatives(p) if scored else None,
        warped=True,
        prompt_logprobs=0 if p.decoder_input_details and settings.prefill_logprobs else None,
        deadline=settings.deadline_s,
    )


def shown(body: GenerateBody, settings: AppSettings, *, full_text: bool) -> Shown:
    """`full_text`: whether the text begins with the prompt where the body does not say."""
    p = parameters(body)
    full = full_text if p.return_full_text is None else p.return_full_text
    return Shown(
        prompt=body.inputs if full else "",
        details=details(p),
        prefill=bool(p.decoder_input_details) and settings.prefill_logprobs,
        top=p.top_n_tokens or 0,
        limit=limit(p, settings),
    )


def parameters(body: GenerateBody) -> Parameters:
    return UNTOLD if body.parameters is None else body.parameters


def limit(p: Parameters, settings: AppSettings) -> int | None:
    return settings.max_tokens if p.max_new_tokens is None else p.max_new_tokens


def details(p: Parameters) -> bool:
    return bool(p.details or p.decoder_input_details)


def _sampling(p: Parameters, settings: AppSettings) -> Sampling:
    """Chance plays a part where it is asked for, or where a field would change nothing without it."""
    temperature = 1.0 if p.temperature is None else p.temperature
    sampled = p.do_sample or temperature != 1 or p.top_k or p.top_p or p.typical_p
    marked = Watermark(settings.watermark_gamma, settings.watermark_delta) if p.watermark else None
    return Sampling(
        greedy=not sampled,
        temperature=temperature,
        top_k=p.top_k or 0,
        top_p=p.top_p or 1.0,
        typical_p=p.typical_p or 1.0,
        repetition=p.repetition_penalty or 1.0,
        frequency_share=p.frequency_penalty or 0.0,
        watermark=marked,
        seed=p.seed,
    )


def _alternatives(p: Parameters) -> int:
    return max(p.top_n_tokens, ALTERNATIVES) if p.top_n_tokens else 0
