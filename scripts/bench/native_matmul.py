"""Compares native matrix products with torch's: python -m scripts.bench.native_matmul

Native products, torch's products and plain memory reads alternate; memory bandwidth limits products of few
rows. The best round counts, because other processes can only make a time longer.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import FLOAT_SOURCES, NativeDtype

SHAPES = ((896, 4864), (4864, 896), (896, 151936))  # inputs, outputs of Qwen2.5-0.5B
ROWS = (1, 2, 4, 8, 16, 64, 1024)
POOL = 1 << 29  # bytes of weights to cycle through, so that none is in a CPU cache
MAX_VALUES = 1 << 28  # multiply-adds / 64; larger products are skipped
TURNS = 16  # calls timed together if a product has at most this many rows
LARGE = torch.ones(1 << 26, dtype=torch.int64)

TimedCall = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="*", default=[kind.name for kind in FLOAT_SOURCES])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{args.threads} threads; per row count: ms, GB/s of weights, GFLOP/s, and × torch's bfloat16")
    for inputs, outputs in SHAPES:
        for name in args.kinds:
            print(f"{name} {inputs} → {outputs}")
            for line in measure(NativeDtype[name], inputs, outputs, args.rounds):
                print(f"  {line}", flush=True)


@torch.inference_mode()
def measure(kind: NativeDtype, inputs: int, outputs: int, rounds: int) -> Iterator[str]:
    weight = torch.randn(outputs, inputs).bfloat16()
    matrices = [PackedMatrix.pack(weight, kind) for _ in range(copies(weight))]
    weights = [weight.clone() for _ in range(copies(weight))]
    for rows in ROWS:
        if rows * outputs * inputs > MAX_VALUES * 64:
            continue
        x = torch.randn(rows, inputs).bfloat16()
        ours = cycle_calls([partial(matrix.linear, x) for matrix in matrices])
        theirs = cycle_calls([partial(linear, x, each) for each in weights])
        turns = TURNS if rows <= TURNS else 1
        read_s, own_s, torch_s = best_times((lambda: LARGE.sum(), ours, theirs), (1, turns, turns), rounds)
        flops = 2 * rows * inputs * outputs
        yield (
            f"{rows:5}: {own_s * 1e3:8.3f} ms {matrices[0].nbytes / own_s / 1e9:6.1f} GB/s "
            f"{flops / own_s / 1e9:7.0f} GFLOP/s  × {torch_s / own_s:.2f}"
            f"   (memory {LARGE.nbytes / read_s / 1e9:.1f} GB/s)"
        )


def copies(weight: Tensor) -> int:
    return max(2, POOL // weight.nbytes)


def cycle_calls(timed_calls: list[TimedCall]) -> TimedCall:
    """A function that calls the next of `timed_calls` each time."""
    turns = cycle(timed_calls)
    return lambda: next(turns)()


def best_times(timed_calls: tuple[TimedCall, ...], calls: tuple[int, ...], rounds: int) -> list[float]:
    """Seconds of one call of each: the minimum over the rounds, after a warm-up round.

    calls: how often to call each one per round.
    """
    times: list[list[float]] = [[] for _ in timed_calls]
    for _ in range(rounds + 1):
        for timed_call, count, durations in zip(timed_calls, calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                timed_call()
            durations.append((time.perf_counter() - start) / count)
    return [min(durations[1:]) for durations in times]


if __name__ == "__main__":
    main()
