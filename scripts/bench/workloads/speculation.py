"""Measures speculative decoding: its gain for a repetitive text, and its cost for a random one."""

from functools import partial

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.hearth import Hearth, pin_runner
from scripts.bench.load import Load, Request
from scripts.bench.models import encode_text
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload

PHRASE = "red green blue "
CLIENTS = (1, 8)
ANSWER_TOKENS = 128


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    repeated_phrase, single_phrase = (
        encode_text(options.model, PHRASE * 30),
        encode_text(options.model, PHRASE),
    )
    loads_by_name: dict[str, Load] = {}
    for clients in CLIENTS:
        seeds = range(1000 * round_number, 1000 * round_number + clients)
        loads_by_name[f"{clients} repetitive"] = [
            Request(repeated_phrase, ANSWER_TOKENS, seed=seed) for seed in seeds
        ]
        loads_by_name[f"{clients} random"] = [
            Request(single_phrase, ANSWER_TOKENS, temperature=2.0, seed=seed) for seed in seeds
        ]
    return loads_by_name


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    options = pin_runner(options)
    return [
        EngineSpec(
            f"{options.speculate} drafts",
            partial(SpawnedEngine, partial(Hearth, options, speculate=options.speculate)),
        ),
        EngineSpec("none", partial(SpawnedEngine, partial(Hearth, options))),
    ]


SPECULATION = BenchWorkload(
    "speculation",
    "our engine with SPECULATE and without. Repetitive: the prompt repeats a phrase and the model continues\n"
    "it, greedy; this is the best case, and real texts gain less. Random: temperature 2, so that nothing\n"
    "repeats; this is the worst case.",
    "models/demo",
    make_loads,
    make_specs,
)
