"""A real model's own answers, computed alone and without any cache; and a seat of it that fails at times."""

from collections.abc import Callable
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.engine.sampler import Choice
from inference.engine.sequence import Score, Task
from inference.model.batch import Batch, Runner
from tests.walk import plain


@dataclass
class Plain:
    """The greedy answers of a model: the most probable token behind all before it, and its logprob."""

    model: PreTrainedModel
    context: int
    start: tuple[int, ...] | None
    near: float = 1e-3
    known: dict[tuple[Ids[int], Ids[int]], Choice] = field(default_factory=dict)

    def choices(self, task: Task) -> list[Choice]:
        source = task.ids if self.start else ()
        tokens = self.start or task.ids
        limit = min(len(tokens) + task.max_tokens, self.context)
        made: list[Choice] = []
        while len(tokens) < limit and not (made and made[-1].id in task.ends):
            made.append(self.next(tokens, source))
            tokens = (*tokens, made[-1].id)
        return made if task.logprobs is not None else [Choice(choice.id) for choice in made]

    def next(self, tokens: tuple[int, ...], source: tuple[int, ...]) -> Choice:
        if (tokens, source) not in self.known:
            scores = plain(self.model, list(tokens), list(source))[-1].log_softmax(-1)
            self.known[tokens, source] = Choice(int(scores.argmax()), float(scores.max()))
        return self.known[tokens, source]

    def scores(self, task: Task) -> list[Score]:
        if task.prompt_logprobs is None:
            return []
        tokens, source = (self.start, task.ids) if self.start else (task.ids, ())
        scores = plain(self.model, list(tokens), list(source)).log_softmax(-1)
        return [Score(), *(Score(float(row[id])) for row, id in zip(scores, tokens[1:], strict=False))]


@dataclass
class Faulty:
    """A Runner; `fault` is called with each Batch before and after it is computed, and may raise.

    early  steps begun before their ids were known
    """

    runner: Runner
    fault: Callable[[Batch, bool], None] = lambda batch, moved: None
    early: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.fault(batch, False)
        logits = self.runner.forward(batch)
        self.fault(batch, True)
        self.early += batch.coming is not None
        return logits
