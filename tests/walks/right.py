"""What an answer is when it is computed alone, token by token, by no engine."""

from collections.abc import Sequence as Ids

import torch

from inference.engine.sampler import BROKEN, Choice, Sampler
from inference.engine.sequence import Score, Sequence, Task
from inference.model.batch import Runner
from inference.sampling import Sampling, Window
from tests.engine.conftest import NAN, POISON, VOCAB
from tests.walks.witness import echoing

NUMBERS = ((POISON,), (NAN,))  # are not to be drawn
KINDS = {
    "greedy": Sampling(greedy=True),
    "drawn": Sampling(temperature=2.0, banned=NUMBERS),
    "penalised": Sampling(greedy=True, window=Window((3, 4), 1.4, 6, scope="expand"), no_repeat_ngram=5),
    "banned": Sampling(top_k=4, temperature=4.0, banned=(*NUMBERS, (7, 8), (9,)), frequency=0.3),
}


class Echo:
    """The answers of a Witness."""

    near = 1e-5

    def __init__(self, runner: Runner, context: int) -> None:
        self.start = runner.start_ids if runner.encodes else None
        self.context = context
        self.encodes = runner.encodes

    def choices(self, task: Task) -> list[Choice]:
        """The tokens of its answer, with what is told of each."""
        if {POISON, NAN} & set(task.ids):
            return [Choice(BROKEN)]
        return chosen(task, self.start, self.context)

    def scores(self, task: Task) -> list[Score]:
        """What is told of its prompt."""
        if task.prompt_logprobs is None:
            return []
        ids = list(self.start or task.ids)
        rows = [echoing(ids[:n], task.ids if self.start else ()) for n in range(1, len(ids))]
        return [Score(), *(scored(rows, ids[1:], task.prompt_logprobs) if rows else [])]


def scored(rows: list[list[float]], ids: Ids[int], tops: int) -> list[Score]:
    return Sampler(VOCAB).score(torch.tensor(rows), ids, tops)


def chosen(task: Task, start: tuple[int, ...] | None, context: int) -> list[Choice]:
    sequence = Sequence(0, task, None, list(start or task.ids), task.ids if start else ())
    made: list[Choice] = []
    while len(sequence.tokens) < min(sequence.limit, context):
        logits = torch.tensor([echoing(sequence.tokens, sequence.source)])
        made += Sampler(VOCAB).sample(logits, [sequence])
        sequence.tokens.append(made[-1].id)
        if made[-1].id < 0 or made[-1].id in task.ends:
            break
    return made
