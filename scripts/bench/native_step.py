"""Compares the speed of a native step with memory bandwidth: python -m scripts.bench.native_step

The model has the shape of Qwen2.5-0.5B and random weights. The server and sampling are not measured. On a
busy machine, compare only ratios within one run.
"""

import argparse
import time
from collections.abc import Callable

import torch

from inference.native.sample_model import DecoderShape, SampleModel, same_dtype
from inference.native.structs import FLOAT_SOURCES, NativeDtype

LAYERS, CONTEXT = 24, 4096 + 16
ROWS = 16  # with 1,024 tokens of KV cache each
# By name: the tokens of each row in the step, and the tokens that each row already has in the KV cache.
STEPS = {
    "1 row, 512 cached": ([1], 512),
    "1 row, 4096 cached": ([1], 4096),
    "16 rows, 512 cached": ([1] * 16, 512),
    "prefill of 512": ([512], 0),
    "prefill of 1024": ([1024], 0),
    "512 after 512 cached": ([512], 512),
    "512 and 15 rows": ([512] + [1] * 15, 512),
}


def sample_model(dtype: NativeDtype, head: NativeDtype, threads: int) -> SampleModel:
    shape = DecoderShape(
        hidden=896,
        num_heads=14,
        num_kv_heads=2,
        head_dim=64,
        inner=4864,
        vocab=151_936,
        layers=(same_dtype(dtype),) * LAYERS,
        head=head,
        has_biases=True,
    )
    return SampleModel(shape, ROWS * 1024 + CONTEXT, threads)


def measure_seconds(call: Callable[[], object], min_total_s: float = 1.0) -> float:
    """Seconds of the fastest of at least three calls, which together take at least `min_total_s`."""
    call()
    times: list[float] = []
    while sum(times) < min_total_s or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="BF16", choices=[kind.name for kind in FLOAT_SOURCES])
    parser.add_argument("--head-kind", choices=[kind.name for kind in FLOAT_SOURCES])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="steps whose name starts with this")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    kind = NativeDtype[args.kind]
    sample = sample_model(kind, NativeDtype[args.head_kind] if args.head_kind else kind, args.threads)
    large = torch.ones(1 << 27, dtype=torch.int64)
    print(f"{kind.name}: {sample.weight_bytes / 1e6:.0f} MB of weights, {args.threads} threads")
    for name, (tokens, num_computed) in STEPS.items():
        if not name.startswith(args.only):
            continue
        bandwidth = large.nbytes / measure_seconds(large.sum, 0.3)
        step_s = measure_seconds(sample.step(tokens, num_computed))
        min_total_s = sample.weight_bytes / bandwidth
        print(
            f"{name:20} {step_s * 1e3:8.1f} ms  {sum(tokens) / step_s:7.0f} tokens/s"
            f"  {min_total_s / step_s:6.1%} of reading the weights at {bandwidth / 1e9:.1f} GB/s"
        )


if __name__ == "__main__":
    main()
