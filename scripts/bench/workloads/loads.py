"""Compares our engine with transformers' generate in static batches on many short and few long requests."""

from functools import partial
from random import Random

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.generate import Generate
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, equal_length_load, varied_length_load
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    random, vocab_size = Random(round_number), options.vocab_size
    return {
        "64 short": equal_length_load(random, vocab_size, 64, prompt_tokens=32, answer_tokens=32),
        "4 long": equal_length_load(random, vocab_size, 4, prompt_tokens=1000, answer_tokens=200),
        "64 short, spread": varied_length_load(
            random, vocab_size, 64, prompt_tokens=32, answer_tokens=32, spread=0.7
        ),
        "4 long, spread": varied_length_load(
            random, vocab_size, 4, prompt_tokens=700, answer_tokens=150, spread=0.5
        ),
    }


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    batched = [
        EngineSpec(f"generate, {batch}", partial(SpawnedEngine, partial(Generate, options, batch)))
        for batch in options.batch_sizes
    ]
    return [EngineSpec("hearth", partial(SpawnedEngine, partial(Hearth, options))), *batched]


LOADS = BenchWorkload(
    "loads",
    "many short and few long requests that arrive at once, greedy; our engine compared with generate in\n"
    "batches in order of arrival. Without spread all lengths are equal, which is generate's best case.\n"
    "With spread the lengths are log-normal, as in chats, and a batch waits for its longest answer.",
    "77m",
    make_loads,
    make_specs,
)
