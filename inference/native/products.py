"""How fast products are on this machine, beside torch's own: python -m inference.native.products

Ours and torch's take turns, and so does reading plain memory, which few rows wait for. The best of the
rounds counts: others on the machine only ever add to a time.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.native.matrix import Matrix
from inference.native.structs import Kind

SHAPES = ((896, 4864), (4864, 896), (896, 151936))  # inputs, outputs: of Qwen2.5-0.5B
ROWS = (1, 2, 4, 8, 16, 64, 1024)
POOL = 1 << 29  # bytes of weights that are gone through, so that none is found in a cache
MOST = 1 << 28  # values of an outcome: 1024 rows of logits say nothing that 1024 rows of a layer do not
TURNS = 16  # calls that are timed together, of few rows
LARGE = torch.ones(1 << 26, dtype=torch.int64)

Way = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", default=[kind.name for kind in Kind])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"{given.threads} threads; per row count: ms, GB/s of weights, GFLOP/s, and × torch's bfloat16")
    for inputs, outputs in SHAPES:
        for name in given.kinds:
            print(f"{name} {inputs} → {outputs}")
            for line in lines(Kind[name], inputs, outputs, given.rounds):
                print(f"  {line}", flush=True)


@torch.inference_mode()
def lines(kind: Kind, inputs: int, outputs: int, rounds: int) -> Iterator[str]:
    weight = torch.randn(outputs, inputs).bfloat16()
    matrices = [Matrix.pack(weight, kind) for _ in range(copies(weight))]
    weights = [weight.clone() for _ in range(copies(weight))]
    for rows in ROWS:
        if rows * outputs * inputs > MOST * 64:
            continue
        x = torch.randn(rows, inputs).bfloat16()
        ours = next_of([partial(matrix.linear, x) for matrix in matrices])
        theirs = next_of([partial(linear, x, each) for each in weights])
        turns = TURNS if rows <= TURNS else 1
        read, own, torchs = best((lambda: LARGE.sum(), ours, theirs), (1, turns, turns), rounds)
        flops = 2 * rows * inputs * outputs
        yield (
            f"{rows:5}: {own * 1e3:8.3f} ms {matrices[0].nbytes / own / 1e9:6.1f} GB/s "
            f"{flops / own / 1e9:7.0f} GFLOP/s  × {torchs / own:.2f}"
            f"   (memory {LARGE.nbytes / read / 1e9:.1f} GB/s)"
        )


def copies(weight: Tensor) -> int:
    return max(2, POOL // weight.nbytes)


def next_of(ways: list[Way]) -> Way:
    """Each in its turn, from call to call."""
    turns = cycle(ways)
    return lambda: next(turns)()


def best(ways: tuple[Way, ...], calls: tuple[int, ...], rounds: int) -> list[float]:
    """Seconds of one call of each, the least of the rounds, in which they take turns; one more warms up."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds + 1):
        for way, count, taken in zip(ways, calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                way()
            taken.append((time.perf_counter() - start) / count)
    return [min(taken[1:]) for taken in times]


if __name__ == "__main__":
    main()
