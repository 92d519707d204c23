"""The expected answers of an EchoRunner, computed alone, token by token, without an engine."""

from collections.abc import Sequence as SequenceOf

import torch

from inference.engine.sampling.sampler import NAN_LOGITS, SampledToken, Sampler
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob
from inference.model.batch import Runner
from inference.sampling import PenaltyWindow, Sampling
from inference.types import GenerationRequest
from tests.engine.conftest import NAN, POISON, VOCAB
from tests.walks.echo_runner import echo_logits

NUMBERS = ((POISON,), (NAN,))  # must not be sampled
KINDS = {
    "greedy": Sampling(greedy=True),
    "drawn": Sampling(temperature=2.0, bad_words_ids=NUMBERS),
    "penalised": Sampling(
        greedy=True, penalty_window=PenaltyWindow((3, 4), 1.4, 6, scope="expand"), no_repeat_ngram_size=5
    ),
    "banned": Sampling(
        top_k=4, temperature=4.0, bad_words_ids=(*NUMBERS, (7, 8), (9,)), frequency_penalty=0.3
    ),
}


class EchoReference:
    """The answers of an EchoRunner."""

    tolerance = 1e-5

    def __init__(self, runner: Runner, context: int) -> None:
        self.start = runner.start_ids if runner.capabilities.encoder_decoder else None
        self.context = context
        self.is_encoder_decoder = runner.capabilities.encoder_decoder
        self._choices: dict[int, tuple[GenerationRequest, list[SampledToken]]] = {}  # by id()

    def choices(self, request: GenerationRequest) -> list[SampledToken]:
        """The tokens of the answer, with their logprobs: computed once for drafts and for the comparison."""
        if {POISON, NAN} & set(request.prompt):
            return [SampledToken(NAN_LOGITS)]
        if id(request) not in self._choices:
            self._choices[id(request)] = request, sample_alone(request, self.start, self.context)
        return self._choices[id(request)][1]

    def scores(self, request: GenerationRequest) -> list[PromptLogprob]:
        """The logprobs of the prompt."""
        if request.prompt_logprobs is None:
            return []
        ids = list(self.start or request.prompt)
        rows = [echo_logits(ids[:n], request.prompt if self.start else ()) for n in range(1, len(ids))]
        return [PromptLogprob(), *(score_prompt(rows, ids[1:], request.prompt_logprobs) if rows else [])]


def score_prompt(rows: list[list[float]], ids: SequenceOf[int], tops: int) -> list[PromptLogprob]:
    return Sampler(VOCAB).prompt_logprobs(torch.tensor(rows), ids, tops)


def sample_alone(
    request: GenerationRequest, start: tuple[int, ...] | None, context: int
) -> list[SampledToken]:
    sequence = Sequence(0, request, None, list(start or request.prompt), request.prompt if start else ())
    sampled_tokens: list[SampledToken] = []
    while len(sequence.token_ids) < min(sequence.max_len, context):
        logits = torch.tensor([echo_logits(sequence.token_ids, sequence.encoder_ids)])
        sampled_tokens += Sampler(VOCAB).sample_async(logits, [sequence]).wait()
        sequence.token_ids.append(sampled_tokens[-1].id)
        if sampled_tokens[-1].id < 0 or sampled_tokens[-1].id in request.stop_token_ids:
            break
    return sampled_tokens
