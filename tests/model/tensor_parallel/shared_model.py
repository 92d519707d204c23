"""Models that several ranks share, each rank in a separate process: what those processes run."""

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.model import process_group
from inference.model.batch import Batch, Resize, make_batch
from inference.model.load.loader import config_of, model_of
from inference.model.load.loader import load as load_model
from inference.model.load_recipe import do_nothing
from inference.model.parallel_layers import use_plain_collectives
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import SelectedRunner, select_runner
from inference.model.tensor_parallel.rank_start import run_rank
from inference.model.tensor_parallel.recipe import LoadRecipe
from inference.sampling import Sampling
from settings.groups import ModelSettings
from tests.engine.generation_requests import make_request

RANKS = 2
NEW = 12
FAILING_TOKEN = 13  # a token
PROMPTS = ([5, 9, 3], list(range(10, 40)), [7] * 6, [80])


class TokenCollector:
    """An OutputSink that collects the token ids."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.ids += output.token_ids


def generate(model: Any) -> list[list[int]]:
    """The engine's greedy answers to the prompts, computed together."""
    runner = select_runner(
        model, RunnerLimits(max_sequences=3, context=64, kv_memory_bytes=1 << 24), RunnerRules(timed=False)
    ).runner
    engine = Engine(runner, Sampler(runner.vocab), EngineOptions(max_batch_tokens=16, max_queued_tokens=1000))
    collectors = [TokenCollector() for _ in PROMPTS]
    requests = [make_request(tuple(prompt), NEW, Sampling(greedy=True)) for prompt in PROMPTS]
    engine.submit(requests, collectors)
    with torch.inference_mode():
        while engine.step():
            pass
    return [collector.ids for collector in collectors]


@contextmanager
def running_ranks(compute: Callable[[Path], Any], folders: list[Path]) -> Iterator[list[Connection]]:
    """Connections to RANKS processes, which send what they compute of each folder in turn, or the error."""
    context, store = multiprocessing.get_context("spawn"), process_group.create_store(RANKS)
    pipes, processes = [], []
    for rank in range(RANKS):
        ours, theirs = context.Pipe()
        rank_work = pickle.dumps(partial(send_computed, compute, folders, rank, store.port))
        processes.append(context.Process(target=run_rank, args=(rank_work, theirs), daemon=True))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    yield pipes
    for process in processes:
        process.join(200)
        assert process.exitcode == 0


def send_computed(
    compute: Callable[[Path], Any], folders: list[Path], rank: int, port: int, pipe: Connection
) -> None:
    """Runs in the process of a rank."""
    store = process_group.connect_store(port, RANKS)
    process_group.join_process_group(store, rank, RANKS, "cpu")
    for folder in folders:
        try:
            pipe.send(compute(folder))
        except Exception as error:
            pipe.send(f"rank {rank}: {error!r}")
    process_group.leave_process_group()
    os._exit(0)


def open_shared(folder: Path) -> Any:
    """This rank's part of the model in a folder."""
    model = model_of(folder, config_of(folder, False), ModelSettings(dtype="float32", device="cpu"))
    use_plain_collectives(model)
    return model


def generate_shared(folder: Path) -> tuple[list[list[int]], int]:
    """The answers of a model that the ranks share, and the number of weights of this one."""
    model = open_shared(folder)
    return generate(model), sum(num_local_values(weight) for weight in model.parameters())


def num_local_values(weight: torch.Tensor) -> int:
    """Number of values of a weight that this rank has."""
    local = getattr(weight, "to_local", lambda: weight)()
    return local.numel()


def select_failing_runner(model: Any, except_first_rank: bool) -> SelectedRunner:
    """A runner that fails if a step's first token is FAILING_TOKEN: on every rank, or on all but the
    first.
    """
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=3, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(kinds=("contiguous",)),
    )
    compute = selected.runner.forward

    def forward(batch: Batch) -> torch.Tensor:
        if batch.token_ids[0] == FAILING_TOKEN and not (except_first_rank and distributed.get_rank() == 0):
            raise ValueError("this step fails")
        return compute(batch)

    selected.runner.forward = forward  # type: ignore[method-assign]
    return selected


def load_recipe(folder: Path, except_first_rank: bool = False) -> LoadRecipe:
    load = partial(load_model, folder, ModelSettings(dtype="float32", device="cpu"))
    return LoadRecipe(
        RANKS, "cpu", do_nothing, load, partial(select_failing_runner, except_first_rank=except_first_rank)
    )


def prompt_batch(*ids: int) -> Batch:
    """A prompt as the only row, in the contiguous runner."""
    count = len(ids)
    return make_batch(ids, (0, count), (0,), (0,), range(count), (Resize(1, 64),), page_size=64)
