"""Compares the speed of a native step with memory bandwidth: python -m scripts.bench.native_step

The model has the shape of Qwen2.5-0.5B and random weights. The server and sampling are not measured. On a
busy machine, compare only ratios within one run.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inference.native.library import library
from inference.native.packed_matrix import alloc
from inference.native.structs import FLOAT_SOURCES, Layer, Matrix, Model, NativeDtype, Step

HIDDEN, INNER, LAYERS, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, VOCAB = 896, 4864, 24, 14, 2, 64, 151936
PAGE, CONTEXT = 16, 4096 + 16
SIZES = {
    "query": (NUM_HEADS * HEAD_DIM, HIDDEN),
    "key": (NUM_KV_HEADS * HEAD_DIM, HIDDEN),
    "value": (NUM_KV_HEADS * HEAD_DIM, HIDDEN),
    "output": (HIDDEN, NUM_HEADS * HEAD_DIM),
    "gate": (INNER, HIDDEN),
    "up": (INNER, HIDDEN),
    "down": (HIDDEN, INNER),
}
BIASED = ("query", "key", "value")
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


class RandomModel:
    """The native Model struct with random weights, and the memory that the structs point to."""

    def __init__(self, kind: NativeDtype, head_kind: NativeDtype, threads: int, rows: int = 16) -> None:
        self.keep_alive: list[Any] = []
        self.weight_bytes = 0
        self.pages = rows * 64 + CONTEXT // PAGE
        angles = torch.outer(torch.arange(CONTEXT).float(), 1e6 ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM))
        shared = {"cos": self.address(angles.cos()), "sin": self.address(angles.sin())}
        shared |= {name: self.address(torch.ones(HIDDEN)) for name in ("before_attention", "before_mlp")}
        layers = (Layer * LAYERS)(*(self.layer(kind, shared) for _ in range(LAYERS)))
        lm_head = self.matrix(head_kind, VOCAB, HIDDEN)
        self.model = Model(
            layers=LAYERS,
            hidden=HIDDEN,
            num_heads=NUM_HEADS,
            num_kv_heads=NUM_KV_HEADS,
            head_dim=HEAD_DIM,
            rotary=HEAD_DIM,
            dtype=NativeDtype.BF16,
            page=PAGE,
            threads=threads,
            epsilon=1e-6,
            scale=HEAD_DIM**-0.5,
            embedding_scale=1,
            residual_scale=1,
            embedding=lm_head,
            lm_head=lm_head,
            final_norm=shared["before_mlp"],
            layer=layers,
        )

    def address(self, tensor: Tensor) -> int:
        self.keep_alive.append(tensor)
        return tensor.data_ptr()

    def allocate(self, size: int, value: Callable[[int], Tensor]) -> int:
        """The address of `size` bytes, allocated like real weights (huge pages) and set to `value(size)`."""
        memory = alloc(size)
        memory[:] = value(size)
        return self.address(memory)

    def matrix(self, kind: NativeDtype, outputs: int, inputs: int, biased: bool = False) -> Matrix:
        """A matrix of random values. They are not packed, because their order does not affect the time."""
        size = library().matrix_bytes(kind, outputs, inputs)
        scales = library().matrix_scale_bytes(kind, outputs, inputs)
        self.weight_bytes += size + scales
        return Matrix(
            kind,
            outputs,
            inputs,
            -(-inputs // 32) * 32,
            self.allocate(
                size, random_bytes if kind in (NativeDtype.INT8, NativeDtype.INT4) else small_values
            ),
            self.allocate(scales, small_values) if scales else None,
            self.address(torch.zeros(outputs)) if biased else None,
        )

    def layer(self, kind: NativeDtype, shared: dict[str, int]) -> Layer:
        matrices = {name: self.matrix(kind, *size, name in BIASED) for name, size in SIZES.items()}
        pool = (self.pages + 1) * PAGE * NUM_KV_HEADS * HEAD_DIM * 2
        keys, values = (self.address(small_values(pool)) for _ in range(2))
        return Layer(**matrices, **shared, keys=keys, values=values)

    def step(self, tokens: list[int], num_computed: int) -> Callable[[], None]:
        """A function that runs a step.

        tokens        new tokens of each row; the step computes the logits of the last one
        num_computed  tokens that each row already has in the KV cache
        """
        places, pages_per_row = torch.randperm(self.pages), -(-(num_computed + max(tokens)) // PAGE)
        pages_by_row = [places.roll(-row * pages_per_row)[:pages_per_row] for row in range(len(tokens))]
        ends = torch.tensor(tokens).cumsum(0)
        positions = torch.cat([torch.arange(num_computed, num_computed + count) for count in tokens])
        row = torch.repeat_interleave(torch.arange(len(tokens)), torch.tensor(tokens))
        pages = torch.cat(pages_by_row)
        page_table = torch.arange(len(tokens)) * pages_per_row
        tensors = {
            "ids": torch.randint(VOCAB, (sum(tokens),)),
            "positions": positions,
            "slot_mapping": pages[page_table[row] + positions // PAGE] * PAGE + positions % PAGE,
            "query_start_loc": torch.cat((torch.tensor([0]), ends)),
            "seq_lens": num_computed + torch.tensor(tokens),
            "page_table": page_table,
            "pages": pages,
            "output_indices": ends - 1,
            "logits": torch.empty(len(tokens), VOCAB, dtype=torch.bfloat16),
        }
        step = Step(sum(tokens), len(tokens), num_logits=len(tokens), num_outputs=len(tokens))
        for name, tensor in tensors.items():
            setattr(step, name, self.address(tensor))
        step.workspace = self.allocate(library().step_bytes(self.model, step), torch.zeros)
        return lambda: library().step_run(ctypes.byref(self.model), ctypes.byref(step))


def random_bytes(size: int) -> Tensor:
    return torch.randint(256, (size,), dtype=torch.uint8)


def small_values(size: int) -> Tensor:
    return (torch.randn(size // 2) / 32).bfloat16().view(torch.uint8)


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
    random = RandomModel(kind, NativeDtype[args.head_kind] if args.head_kind else kind, args.threads)
    large = torch.ones(1 << 27, dtype=torch.int64)
    print(f"{kind.name}: {random.weight_bytes / 1e6:.0f} MB of weights, {args.threads} threads")
    for name, (tokens, num_computed) in STEPS.items():
        if not name.startswith(args.only):
            continue
        bandwidth = large.nbytes / measure_seconds(large.sum, 0.3)
        step_s = measure_seconds(random.step(tokens, num_computed))
        min_total_s = random.weight_bytes / bandwidth
        print(
            f"{name:20} {step_s * 1e3:8.1f} ms  {sum(tokens) / step_s:7.0f} tokens/s"
            f"  {min_total_s / step_s:6.1%} of reading the weights at {bandwidth / 1e9:.1f} GB/s"
        )


if __name__ == "__main__":
    main()
