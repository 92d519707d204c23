"""Compares our server over HTTP with transformers' generate in process."""

from functools import partial

from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.generate import Generate
from scripts.bench.load import Load, Request
from scripts.bench.models import encode_text
from scripts.bench.options import BenchOptions
from scripts.bench.server import start_hearth
from scripts.bench.workload import BenchWorkload

CLIENTS = (1, 8, 32)
ANSWER_TOKENS = 128


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    texts = [f"Count from {k % 9 + round_number} to {90 + k % 10}." for k in range(max(CLIENTS))]
    prompts = [encode_text(options.model, text) for text in texts]
    return {
        f"{clients} clients": [Request(ids, ANSWER_TOKENS) for ids in prompts[:clients]]
        for clients in CLIENTS
    }


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    return [
        EngineSpec("hearth", partial(start_hearth, options)),
        EngineSpec("generate", partial(SpawnedEngine, partial(Generate, options, max(CLIENTS)))),
    ]


HTTP = BenchWorkload(
    "http",
    "our server, where each client streams over HTTP, compared with generate, which computes each load as\n"
    f"one batch in process, without server, streams or clients. Greedy, {ANSWER_TOKENS} tokens each.",
    "models/demo",
    make_loads,
    make_specs,
)
