"""Compares our engine with transformers' continuous batching on requests of various lengths."""

from functools import partial
from random import Random

from scripts.bench.continuous import Continuous
from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, varied_length_load
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    return {
        "64 mixed": varied_length_load(
            Random(round_number), options.vocab_size, 64, prompt_tokens=200, answer_tokens=100, spread=0.7
        )
    }


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    return [
        EngineSpec("hearth", partial(SpawnedEngine, partial(Hearth, options))),
        EngineSpec("continuous", partial(SpawnedEngine, partial(Continuous, options))),
    ]


MIXED = BenchWorkload(
    "mixed",
    "64 requests of log-normal lengths that arrive at once, greedy; our engine compared with transformers'\n"
    "continuous batching, each with its own defaults.",
    "77m",
    make_loads,
    make_specs,
)
