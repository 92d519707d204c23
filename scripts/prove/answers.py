"""Greedy answers of one model: transformers' own, its bare forward's, and the engine's.

Knows token ids, `generate` and the engine; not which types there are. All are asked for ordinary tokens
alone: what a model does with padding or an image's place in an answer is not compared.
"""

import random
from dataclasses import dataclass
from typing import Any

import torch

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.model.batch import Runner
from inference.model.start import start_ids
from inference.model.trial import ordinary_ids
from inference.sampling import Sampling

NEW = 12
ROWS = 4
CONTEXT = 64  # tokens of the longest prompt and its answer, and some
STEP_TOKENS = 16  # fewer than the longest prompt has
LENGTHS = (3, 14, 31, 1, 8)
SHARED = 20  # tokens that the last two prompts begin with

Ids = list[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is asked: prompts of unequal lengths, and which tokens an answer may and may not have."""

    prompts: list[Ids]
    allowed: frozenset[int]
    suppressed: Ids


class Ear:
    """An outlet that remembers what it was given."""

    def __init__(self) -> None:
        self.id = 0
        self.ids: Ids = []
        self.error: Exception | None = None

    def put(self, record: Record) -> None:
        self.ids += record.ids
        self.error = record.error or self.error

    def heard(self) -> Ids:
        if self.error is not None:
            raise self.error
        return self.ids


def asked(model: Any, vocab: int) -> Asked:
    """Prompts for a model, the last two of which begin alike."""
    ids = ordinary_ids(model)
    chance = random.Random(3)
    own = [[chance.choice(ids) for _ in range(length)] for length in LENGTHS]
    shared = [chance.choice(ids) for _ in range(SHARED)]
    prompts = [*own, shared + own[0], shared + own[4]]
    return Asked(prompts, frozenset(ids), sorted(set(range(vocab)).difference(ids)))


@torch.inference_mode()
def generated(model: Any, prompt: Ids, suppressed: Ids) -> Ids:
    """What transformers answers."""
    told = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "eos_token_id": None}
    return model.generate(torch.tensor([prompt]), suppress_tokens=suppressed, **told)[0, -NEW:].tolist()


@torch.inference_mode()
def forwarded(model: Any, prompt: Ids, suppressed: Ids) -> Ids:
    """What the model's forward says, asked anew for each token."""
    encodes = model.config.is_encoder_decoder
    ids = list(start_ids(model)) if encodes else list(prompt)
    for _ in range(NEW):
        so_far = torch.tensor([ids])
        source = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": so_far}
        logits = model(**(source if encodes else {"input_ids": so_far}), use_cache=False).logits[0, -1]
        logits[suppressed] = float("-inf")
        ids.append(int(logits.argmax()))
    return ids[-NEW:]


class Served:
    """A model behind an engine."""

    def __init__(self, runner: Runner, asked: Asked) -> None:
        self.prompts = asked.prompts
        self.sampling = Sampling(greedy=True, allowed=asked.allowed)
        sampler = Sampler(runner.vocab)
        self.engine = Engine(runner, sampler, max_batch_tokens=STEP_TOKENS, max_queued_tokens=10_000)

    def alone(self) -> list[Ids]:
        """The answers, each finished before the next is asked for."""
        found = []
        for prompt in self.prompts:
            ear = self.ask(prompt)
            self.finish()
            found.append(ear.heard())
        return found

    def mixed(self) -> list[Ids]:
        """The answers to prompts that come one after the other, among others that leave early."""
        heard, others = [], []
        for number, prompt in enumerate(self.prompts):
            heard.append(self.ask(prompt))
            others.append(self.ask(prompt[::-1]))
            for _ in range(3):
                self.engine.step()
            if number % 2:
                self.engine.cancel([others[number - 1].id])
        self.finish()
        return [ear.heard() for ear in heard]

    def ask(self, prompt: Ids) -> Ear:
        ear = Ear()
        task = Task(tuple(prompt), max_tokens=NEW, sampling=self.sampling)
        ear.id = self.engine.submit([task], [ear])[0]
        return ear

    def finish(self) -> None:
        while self.engine.step():
            pass
