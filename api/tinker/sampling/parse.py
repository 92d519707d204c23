"""A request for samples: the JSON of `asample`, and the GenerationRequest that it means.

Knows neither sessions nor promises. Raises BadRequest with the field's name before anything is computed.
"""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from api.body.json_body import to_struct
from api.tinker.sampling.prompt_targets import PromptTargets, read_targets
from api.tinker.tensor_json import TensorFields
from inference.backend_info import ModelInfo
from inference.errors import BadRequest
from inference.prompt_scoring import PromptScoring
from inference.sampling import Sampling
from inference.types import GenerationRequest
from inference.validation import MAX_ALTERNATIVES, MAX_CHOICES

TEXT_CHUNK = "encoded_text"
NO_TOP_K = -1
STABILITY_RULE = "is for the loss stable_reinforce, which is not served: set loss_fn=importance_sampling"


class Chunk(Struct):
    """A part of a prompt. Only tokens are served."""

    type: str = TEXT_CHUNK
    tokens: list[int] = []


class PromptChunks(Struct):
    chunks: list[Chunk]


class SampleParams(Struct):
    """How to sample.

    max_tokens  None: to the end of the context
    stop        a text, texts, or token ids; None: the model's end tokens; []: nothing ends a sample
    top_k       -1: all tokens
    """

    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str | int] | None = None
    temperature: float = 1.0
    top_k: int = NO_TOP_K
    top_p: float = 1.0


class SampleBody(Struct):
    """The fields of `asample` that say what to compute, as the SDK sends them."""

    prompt: PromptChunks
    sampling_params: SampleParams
    num_samples: int = 1
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int | None = None
    topk_sample_logprobs: int | None = None
    target_prompt_logprobs: TensorFields | None = None
    prompt_alt_tokens_k: int | None = None
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool | None = None


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """What the reply shows.

    num_samples      sequences
    prompt_logprobs  whether it has the logprobs of the prompt
    num_prompt_top   most probable tokens shown with each token of the prompt; 0: none
    num_top          the same for sampled tokens
    num_scored       last tokens of the prompt that have logprobs; None: all but the first
    targets          tokens to score at the places of the prompt; None: none
    num_draws        tokens drawn at each place of the prompt
    """

    num_samples: int = 1
    prompt_logprobs: bool = False
    num_prompt_top: int = 0
    num_top: int = 0
    num_scored: int | None = None
    targets: PromptTargets | None = None
    num_draws: int = 0

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt must be computed with its logits."""
        return self.prompt_logprobs or self.num_prompt_top > 0 or self.scores_places

    @property
    def scores_places(self) -> bool:
        return self.targets is not None or self.num_draws > 0


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What to compute, and what of it the reply shows."""

    generation: GenerationRequest
    options: SampleOptions


def parse_sample(value: Any, info: ModelInfo, serves_stability: bool = False) -> SampleRequest:
    """The request in a body of `asample`. Raises BadRequest.

    serves_stability: record_stability_info is accepted, and nothing is recorded
    """
    body = to_struct(value, SampleBody)
    if body.record_stability_info and not serves_stability:
        raise BadRequest("record_stability_info", STABILITY_RULE)
    prompt = parse_prompt(body.prompt)
    options = parse_options(body, len(prompt))
    return SampleRequest(make_generation(body, prompt, options, info), options)


def parse_prompt(prompt: PromptChunks) -> tuple[int, ...]:
    for index, chunk in enumerate(prompt.chunks):
        if chunk.type != TEXT_CHUNK:
            raise BadRequest(f"prompt.chunks[{index}].type", f"must be {TEXT_CHUNK}: text only", chunk.type)
    token_ids = tuple(token_id for chunk in prompt.chunks for token_id in chunk.tokens)
    if not token_ids:
        raise BadRequest("prompt", "must have at least one token")
    return token_ids


def parse_options(body: SampleBody, num_prompt_tokens: int) -> SampleOptions:
    check_range("num_samples", body.num_samples, 1, MAX_CHOICES)
    targets = body.target_prompt_logprobs
    options = SampleOptions(
        num_samples=body.num_samples,
        prompt_logprobs=bool(body.prompt_logprobs),
        num_prompt_top=body.topk_prompt_logprobs or 0,
        num_top=body.topk_sample_logprobs or 0,
        num_scored=body.prompt_logprobs_last_n,
        targets=None if targets is None else read_targets(targets, num_prompt_tokens - 1),
        num_draws=body.prompt_alt_tokens_k or 0,
    )
    check_range("topk_prompt_logprobs", options.num_prompt_top, 0, MAX_ALTERNATIVES)
    check_range("topk_sample_logprobs", options.num_top, 0, MAX_ALTERNATIVES)
    if options.num_scored is not None:
        check_range("prompt_logprobs_last_n", options.num_scored, 1, num_prompt_tokens - 1)
        if not options.prompt_logprobs:
            raise BadRequest("prompt_logprobs_last_n", "needs prompt_logprobs=true")
    return options


def check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise BadRequest(field, f"must be between {low} and {high}", value)


def make_generation(
    body: SampleBody, prompt: tuple[int, ...], options: SampleOptions, info: ModelInfo
) -> GenerationRequest:
    params = body.sampling_params
    stop = [params.stop] if isinstance(params.stop, str) else params.stop or []
    return GenerationRequest(
        prompt,
        Sampling(
            temperature=params.temperature,
            top_k=0 if params.top_k == NO_TOP_K else params.top_k,
            top_p=params.top_p,
            seed=params.seed,
        ),
        max_tokens=max_tokens(params, len(prompt), info, options.scores_prompt),
        reject_if_too_long=True,
        stop=tuple(each for each in stop if isinstance(each, str)),
        stop_token_ids=tuple(each for each in stop if isinstance(each, int)),
        ignore_eos=params.stop is not None,
        show_special=True,
        n=options.num_samples,
        logprobs=options.num_top,
        prompt_logprobs=options.num_prompt_top if options.scores_prompt else None,
        prompt_scoring=make_scoring(options) if options.scores_places else None,
    )


def make_scoring(options: SampleOptions) -> PromptScoring:
    return PromptScoring(options.targets.candidates if options.targets else (), options.num_draws)


def max_tokens(
    params: SampleParams, num_prompt_tokens: int, info: ModelInfo, scores_prompt: bool
) -> int | None:
    """As requested; 0 for a prompt that fills the context and is to be scored, as compute_logprobs has it."""
    is_full = info.context is not None and num_prompt_tokens == info.context
    return 0 if scores_prompt and is_full else params.max_tokens
