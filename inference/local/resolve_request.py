"""A request as the engine needs it: token ids, normalised sampling, the room for the answer, a seed.

Knows the model and its vocabulary. Does not know the engine, nor how an answer becomes text.
"""

import secrets
import time
from dataclasses import dataclass, replace

from inference.content import content_text
from inference.errors import MaxTokensTooLarge
from inference.local.backend_model import BackendModel
from inference.local.input_processor import is_chat
from inference.sampling import Sampling
from inference.text.tokenizer import bad_words_ids
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest

MIN_TEMPERATURE = 1e-5  # below it sampling is greedy, as in vLLM's SamplingParams


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request, and what its token ids no longer say of it.

    request         for the engine (see Sequence.request), without a seed
    is_chat         the client's prompt is a conversation
    arrived_s       when the request came, by time.monotonic
    continued_text  of the message that the answer continues; None: the answer is a new one
    """

    request: GenerationRequest
    is_chat: bool
    arrived_s: float
    continued_text: str | None = None

    @property
    def separates_reasoning(self) -> bool:
        """Whether reasoning may be apart from the text: a completion has no turns, and so no markers."""
        return self.is_chat and self.request.separate_reasoning

    @property
    def prepared_s(self) -> float:
        """Seconds since the request came."""
        return time.monotonic() - self.arrived_s

    def with_adapter_number(self, number: int) -> "ResolvedRequest":
        return replace(self, request=replace(self.request, adapter_number=number))

    def with_seeds(self, default_seed: int | None = None) -> list[GenerationRequest]:
        """The request of each answer: their seeds differ; a greedy answer has none."""
        request, sampling = self.request, self.request.sampling
        if sampling.greedy:
            return [replace(request, sampling=replace(sampling, seed=None))] * request.n
        seed = default_seed if sampling.seed is None else sampling.seed
        first = secrets.randbits(63) if seed is None else seed
        return [
            replace(request, sampling=replace(sampling, seed=first + index)) for index in range(request.n)
        ]


class RequestResolver:
    """Resolves the requests for one model."""

    def __init__(self, model: BackendModel, vocabulary: Vocabulary) -> None:
        self._model = model
        self._vocabulary = vocabulary

    def resolve(
        self, request: GenerationRequest, token_ids: tuple[int, ...], *, has_grammar: bool, arrived_s: float
    ) -> ResolvedRequest:
        """token_ids: the prompt's. Raises MaxTokensTooLarge."""
        sampling = normalise_sampling(request.sampling, self._model.vocab)
        if request.bad_words:
            banned_runs = bad_words_ids(request.bad_words, self._vocabulary)
            sampling = replace(sampling, bad_words_ids=sampling.bad_words_ids + banned_runs)
        # Behind a complete structured output only end tokens are allowed, so they must end the answer.
        ignores_eos = request.ignore_eos and not has_grammar
        engine_request = replace(
            request,
            prompt=token_ids,
            sampling=sampling,
            max_tokens=self._max_output_tokens(request, len(token_ids)),
            stop_token_ids=request.stop_token_ids + (() if ignores_eos else tuple(self._model.eos_token_ids)),
        )
        return ResolvedRequest(engine_request, is_chat(request.prompt), arrived_s, continued_text(request))

    def _max_output_tokens(self, request: GenerationRequest, num_prompt_tokens: int) -> int:
        available = self._model.context - (0 if self._model.is_encoder_decoder else num_prompt_tokens)
        if request.max_tokens is None:
            return available
        if request.reject_if_too_long and request.max_tokens > available:
            raise MaxTokensTooLarge(self._model.context, num_prompt_tokens, request.max_tokens)
        return min(request.max_tokens, available)


def continued_text(request: GenerationRequest) -> str | None:
    """The text of the last message, if the answer continues it."""
    if not (is_chat(request.prompt) and request.template.continue_final_message):
        return None
    return content_text(request.prompt[-1].content)


def normalise_sampling(sampling: Sampling, vocab: int) -> Sampling:
    """Replace parameters by equivalent ones that fewer cases distinguish.

    A temperature below MIN_TEMPERATURE and contrastive search are greedy; a top_k of at least `vocab` is off.
    """
    if sampling.penalty_alpha or sampling.temperature < MIN_TEMPERATURE:
        return replace(sampling, greedy=True, temperature=1.0)
    return replace(sampling, top_k=0) if sampling.top_k >= vocab else sampling
