"""Measures the time outside the model: our engine in process with a profile, and behind its server."""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, equal_length_load
from scripts.bench.options import BenchOptions
from scripts.bench.server import start_hearth
from scripts.bench.workload import BenchWorkload

NUM_STREAMS, PROMPT_TOKENS, ANSWER_TOKENS = 16, 16, 64
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "temperature 1": {"temperature": 1.0},
    "0.7, top-k, top-p": {"temperature": 0.7, "top_k": 40, "top_p": 0.9},
}


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    random = Random(round_number)
    return {
        f"{NUM_STREAMS} {name}": [
            replace(request, seed=seed, **sampling)
            for seed, request in enumerate(
                equal_length_load(random, options.vocab_size, NUM_STREAMS, PROMPT_TOKENS, ANSWER_TOKENS)
            )
        ]
        for name, sampling in SAMPLING.items()
    }


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    return [
        EngineSpec("in process", partial(SpawnedEngine, partial(Hearth, replace(options, profile=True)))),
        EngineSpec("server", partial(start_hearth, options)),
    ]


OVERHEAD = BenchWorkload(
    "overhead",
    f"{NUM_STREAMS} streams of {ANSWER_TOKENS} tokens: the share of the time outside the model, "
    "and the cost of HTTP.",
    "0.5b",
    make_loads,
    make_specs,
)
