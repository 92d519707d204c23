"""Greedy answers of one model: transformers' own, and the engine's, alone and in company.

Knows token ids, `generate` and the engine; not which types there are.
"""

import random
from collections.abc import Sequence
from typing import Any

import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.model.batch import Runner
from inference.sampling import Sampling

NEW = 12
ROWS = 4
CONTEXT = 64  # tokens of the longest prompt and its answer, and some
STEP_TOKENS = 16  # fewer than the longest prompt has
LENGTHS = (3, 14, 31, 1, 8)
SHARED = 20  # tokens that the last two prompts begin with

Ids = list[int]


class Ear:
    """An outlet that remembers the ids it was given."""

    def __init__(self) -> None:
        self.id = 0
        self.ids: Ids = []

    def put(self, record: Record) -> None:
        if record.error is not None:
            raise record.error
        self.ids += record.ids


def prompts(ids: Sequence[int]) -> list[Ids]:
    """Prompts of unequal lengths of some of `ids`, two of which begin alike."""
    chance = random.Random(3)
    own = [[chance.choice(ids) for _ in range(length)] for length in LENGTHS]
    shared = [chance.choice(ids) for _ in range(SHARED)]
    return [*own, shared + own[0], shared + own[4]]


def generated(model: Any, prompt: Ids) -> Ids:
    """What transformers answers."""
    told = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    with torch.inference_mode():
        ids = model.generate(torch.tensor([prompt]), **told)
    return ids[0, -NEW:].tolist()


def engine(runner: Runner, vocab: int) -> Engine:
    return Engine(runner, Sampler(vocab), max_batch_tokens=STEP_TOKENS, max_queued_tokens=10_000)


def alone(served: Engine, prompt: Ids) -> Ids:
    ear = ask(served, prompt)
    finish(served)
    return ear.ids


def in_company(served: Engine, prompts: Sequence[Ids]) -> list[Ids]:
    """The answers to prompts that come one after the other, among others of which every second leaves early."""
    heard, others = [], []
    for number, prompt in enumerate(prompts):
        heard.append(ask(served, prompt))
        others.append(ask(served, prompt[::-1]))
        for _ in range(3):
            served.step()
        if number % 2:
            served.cancel([others[number - 1].id])
    finish(served)
    return [ear.ids for ear in heard]


def ask(served: Engine, prompt: Ids) -> Ear:
    ear = Ear()
    ear.id = served.submit([Task(tuple(prompt), max_tokens=NEW, sampling=Sampling(greedy=True))], [ear])[0]
    return ear


def finish(served: Engine) -> None:
    while served.step():
        pass
