"""Measures prefix caching where many prompts share a long prefix, such as a system prompt or a document."""

from functools import partial
from random import Random

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.hearth import Hearth, pin_runner
from scripts.bench.load import Load, Request, random_token_ids
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload

NUM_REQUESTS, SHARED_TOKENS, OWN_TOKENS, ANSWER_TOKENS = 32, 1000, 16, 16


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    """Concurrent requests that share a prefix, new in each round; then one more such request."""
    random = Random(round_number)
    shared = random_token_ids(random, SHARED_TOKENS, options.vocab_size)
    requests = [
        Request(shared + random_token_ids(random, OWN_TOKENS, options.vocab_size), ANSWER_TOKENS)
        for _ in range(NUM_REQUESTS + 1)
    ]
    return {f"{NUM_REQUESTS} at once": requests[:NUM_REQUESTS], "1 later": requests[NUM_REQUESTS:]}


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    options = pin_runner(options)
    return [
        EngineSpec("prefix caching", partial(SpawnedEngine, partial(Hearth, options))),
        EngineSpec("none", partial(SpawnedEngine, partial(Hearth, options, prefix_caching=False))),
    ]


PREFIX = BenchWorkload(
    "prefix",
    f"{NUM_REQUESTS} prompts share their first {SHARED_TOKENS} tokens and differ in the last {OWN_TOKENS};\n"
    f"answers have {ANSWER_TOKENS} tokens; "
    "our engine with PREFIX_CACHING and without. The first request computes the shared prefix.",
    "77m",
    make_loads,
    make_specs,
)
