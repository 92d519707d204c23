"""The expected answers of an EchoRunner, computed alone, token by token, without an engine."""

from collections.abc import Sequence as SequenceOf

import torch

from inference.engine.sampling.sampler import NAN_LOGITS, SampledToken, Sampler
from inference.engine.sequence import PromptLogprob, Sequence, Task
from inference.model.batch import Runner
from inference.sampling import PenaltyWindow, Sampling
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
        self.start = runner.start_ids if runner.is_encoder_decoder else None
        self.context = context
        self.is_encoder_decoder = runner.is_encoder_decoder

    def choices(self, task: Task) -> list[SampledToken]:
        """The tokens of the answer, with their logprobs."""
        if {POISON, NAN} & set(task.prompt_token_ids):
            return [SampledToken(NAN_LOGITS)]
        return sample_alone(task, self.start, self.context)

    def scores(self, task: Task) -> list[PromptLogprob]:
        """The logprobs of the prompt."""
        if task.prompt_logprobs is None:
            return []
        ids = list(self.start or task.prompt_token_ids)
        rows = [echo_logits(ids[:n], task.prompt_token_ids if self.start else ()) for n in range(1, len(ids))]
        return [PromptLogprob(), *(score_prompt(rows, ids[1:], task.prompt_logprobs) if rows else [])]


def score_prompt(rows: list[list[float]], ids: SequenceOf[int], tops: int) -> list[PromptLogprob]:
    return Sampler(VOCAB).prompt_logprobs(torch.tensor(rows), ids, tops)


def sample_alone(task: Task, start: tuple[int, ...] | None, context: int) -> list[SampledToken]:
    sequence = Sequence(
        0, task, None, list(start or task.prompt_token_ids), task.prompt_token_ids if start else ()
    )
    sampled_tokens: list[SampledToken] = []
    while len(sequence.token_ids) < min(sequence.max_len, context):
        logits = torch.tensor([echo_logits(sequence.token_ids, sequence.encoder_ids)])
        sampled_tokens += Sampler(VOCAB).sample_async(logits, [sequence]).wait()
        sequence.token_ids.append(sampled_tokens[-1].id)
        if sampled_tokens[-1].id < 0 or sampled_tokens[-1].id in task.stop_token_ids:
            break
    return sampled_tokens
