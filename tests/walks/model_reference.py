"""A real model's own answers, computed alone and without a cache; a wrapper of its runner that can fail."""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.engine.sampling.sampler import SampledToken
from inference.engine.step_output import PromptLogprob
from inference.model.batch import Batch, Runner
from inference.types import GenerationRequest
from tests.walks.batch_walk import plain


@dataclass
class ModelReference:
    """The greedy answers of a model: the most probable next token and its logprob."""

    model: PreTrainedModel
    context: int
    start: tuple[int, ...] | None
    tolerance: float = 1e-3
    known: dict[tuple[SequenceOf[int], SequenceOf[int]], SampledToken] = field(default_factory=dict)

    def choices(self, request: GenerationRequest) -> list[SampledToken]:
        source = request.prompt if self.start else ()
        tokens = self.start or request.prompt
        limit = min(len(tokens) + request.max_tokens, self.context)
        sampled_tokens: list[SampledToken] = []
        while len(tokens) < limit and not (
            sampled_tokens and sampled_tokens[-1].id in request.stop_token_ids
        ):
            sampled_tokens.append(self.next(tokens, source))
            tokens = (*tokens, sampled_tokens[-1].id)
        return (
            sampled_tokens
            if request.logprobs is not None
            else [SampledToken(choice.id) for choice in sampled_tokens]
        )

    def next(self, tokens: tuple[int, ...], source: tuple[int, ...]) -> SampledToken:
        if (tokens, source) not in self.known:
            scores = plain(self.model, list(tokens), list(source))[-1].log_softmax(-1)
            self.known[tokens, source] = SampledToken(int(scores.argmax()), float(scores.max()))
        return self.known[tokens, source]

    def scores(self, request: GenerationRequest) -> list[PromptLogprob]:
        if request.prompt_logprobs is None:
            return []
        tokens, source = (self.start, request.prompt) if self.start else (request.prompt, ())
        scores = plain(self.model, list(tokens), list(source)).log_softmax(-1)
        return [
            PromptLogprob(),
            *(PromptLogprob(float(row[id])) for row, id in zip(scores, tokens[1:], strict=False)),
        ]


@dataclass
class FaultyRunner:
    """A Runner that calls `on_forward` with each Batch before and after computing it; `on_forward` may raise.

    early  steps launched before the tokens of the step before were known
    """

    runner: Runner
    on_forward: Callable[[Batch, bool], None] = lambda batch, moved: None
    early: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.on_forward(batch, False)
        logits = self.runner.forward(batch)
        self.on_forward(batch, True)
        self.early += batch.pending_tokens is not None
        return logits
