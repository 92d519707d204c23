"""Models that several ranks share, in processes of their own: what those processes run."""

import os
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.model import fit, group
from inference.model.batch import Batch, Shape
from inference.model.fit import Fitted
from inference.model.load import config_of, model_of
from inference.model.load import load as load_model
from inference.model.ranks.follower import Recipe
from inference.model.ranks.local import localise
from inference.opening import nothing
from inference.sampling import Sampling

RANKS = 2
NEW = 12
FAILS = 13  # a token
PROMPTS = ([5, 9, 3], list(range(10, 40)), [7] * 6, [80])


class Ear:
    """An outlet that remembers what it was given."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def put(self, record: Record) -> None:
        assert record.error is None, record.error
        self.ids += record.ids


def answers(model: Any) -> list[list[int]]:
    """What the engine answers to the prompts, together, greedily."""
    runner = fit.choose(model, max_rows=3, context=64, kv_bytes=1 << 24, timed=False).runner
    engine = Engine(runner, Sampler(runner.vocab), max_batch_tokens=16, max_queued_tokens=1000)
    ears = [Ear() for _ in PROMPTS]
    tasks = [Task(tuple(prompt), NEW, Sampling(greedy=True)) for prompt in PROMPTS]
    engine.submit(tasks, ears)
    with torch.inference_mode():
        while engine.step():
            pass
    return [ear.ids for ear in ears]


def answer_in_step(rank: int, port: int, folders: list[Path], pipe: Connection) -> None:
    """Be a rank of each folder's model in turn; all ranks ask the same. Sends the answers of each."""
    store = group.meeting_at(port, RANKS)
    group.join(store, rank, RANKS, "cpu")
    for folder in folders:
        model = model_of(folder, config_of(folder, False), "float32", "cpu", False)
        localise(model)
        pipe.send((answers(model), sum(held(weight) for weight in model.parameters())))
    group.leave()
    os._exit(0)


def held(weight: torch.Tensor) -> int:
    """How many numbers of a weight this rank has."""
    local = getattr(weight, "to_local", lambda: weight)()
    return local.numel()


def fitted_to_fail(model: Any, alone: bool) -> Fitted:
    """A runner that fails where a step's first token is FAILS: on every rank, or on all but the first."""
    fitted = fit.choose(model, max_rows=3, context=64, kv_bytes=1 << 24, kinds=("slots",))
    compute = fitted.runner.forward

    def forward(batch: Batch) -> torch.Tensor:
        if batch.ids[0] == FAILS and not (alone and distributed.get_rank() == 0):
            raise ValueError("this step fails")
        return compute(batch)

    fitted.runner.forward = forward  # type: ignore[method-assign]
    return fitted


def recipe(folder: Path, alone: bool = False) -> Recipe:
    load = partial(load_model, folder, dtype="float32", device="cpu", trust_remote_code=False)
    return Recipe(RANKS, "cpu", nothing, load, partial(fitted_to_fail, alone=alone))


def step(*ids: int) -> Batch:
    """A prompt in a row of its own, in the slots seat."""
    count = len(ids)
    return Batch(ids, (0, count), (0,), (0,), range(count), (Shape(1, 64),))
