"""Compares this version of the server with another one over HTTP, to find regressions of speed."""

from functools import partial
from pathlib import Path
from random import Random

from scripts.bench.engine_under_test import EngineSpec
from scripts.bench.load import Load, equal_length_load, varied_length_load
from scripts.bench.models import model_folder
from scripts.bench.options import BenchOptions
from scripts.bench.server import start_hearth
from scripts.bench.workload import BenchWorkload

CLIENTS = (1, 8, 32, 64)
PROMPT_TOKENS, ANSWER_TOKENS = 64, 128
NUM_MIXED = 16


def make_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    """Prompts are new in each round, so that no prefix cache contains them."""
    random, vocab_size = Random(round_number), options.vocab_size
    loads: dict[str, Load] = {
        f"{count} clients": equal_length_load(random, vocab_size, count, PROMPT_TOKENS, ANSWER_TOKENS)
        for count in CLIENTS
    }
    mixed = varied_length_load(random, vocab_size, NUM_MIXED, PROMPT_TOKENS, ANSWER_TOKENS, spread=0.7)
    return loads | {f"{NUM_MIXED} mixed": mixed}


def make_specs(options: BenchOptions) -> list[EngineSpec]:
    write_model = partial(model_folder, options.model)
    other = partial(start_hearth, options, Path(options.checkout).resolve())
    return [
        EngineSpec("this", partial(start_hearth, options), write_model),
        EngineSpec("other", other, write_model),
    ]


CHECKOUTS = BenchWorkload(
    "checkouts",
    f"this version of the server and the other one; each client streams over HTTP, greedy.\n"
    f"Clients: {PROMPT_TOKENS} prompt tokens and {ANSWER_TOKENS} answer tokens each; mixed: log-normal "
    "lengths around these.\nEvery round restarts both servers.",
    "77m",
    make_loads,
    make_specs,
    restarts=True,
)
