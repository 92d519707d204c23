"""How fast a step is here, next to how fast memory can be read: python -m inference.native.speed

A model of random weights in the shape of Qwen2.5-0.5B, alone in the process: no server, no sampling. Figures
of a busy machine say little; ratios within one run say more.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inference.native.library import library
from inference.native.matrix import reserved
from inference.native.structs import Kind, Layer, Matrix, Model, Step

HIDDEN, INNER, LAYERS, HEADS, GROUPS, HEAD, VOCAB = 896, 4864, 24, 14, 2, 64, 151936
PAGE, CONTEXT = 16, 4096 + 16
SIZES = {
    "query": (HEADS * HEAD, HIDDEN),
    "key": (GROUPS * HEAD, HIDDEN),
    "value": (GROUPS * HEAD, HIDDEN),
    "output": (HIDDEN, HEADS * HEAD),
    "gate": (INNER, HIDDEN),
    "up": (INNER, HIDDEN),
    "down": (HIDDEN, INNER),
}
BIASED = ("query", "key", "value")
# What is measured: tokens of each row in a step, and tokens that each row holds before.
STEPS = {
    "1 row, 512 held": ([1], 512),
    "1 row, 4096 held": ([1], 4096),
    "16 rows, 512 held": ([1] * 16, 512),
    "prefill of 512": ([512], 0),
    "prefill of 1024": ([1024], 0),
    "512 more behind 512": ([512], 512),
    "512 and 15 rows": ([512] + [1] * 15, 512),
}


class Random:
    """The model, and whatever its structs point to."""

    def __init__(self, kind: Kind, head_kind: Kind, threads: int, rows: int = 16) -> None:
        self.held: list[Any] = []
        self.weight_bytes = 0
        self.pages = rows * 64 + CONTEXT // PAGE
        angles = torch.outer(torch.arange(CONTEXT).float(), 1e6 ** -(torch.arange(0, HEAD, 2) / HEAD))
        shared = {"cos": self.address(angles.cos()), "sin": self.address(angles.sin())}
        shared |= {name: self.address(torch.ones(HIDDEN)) for name in ("before_attention", "before_mlp")}
        layers = (Layer * LAYERS)(*(self.layer(kind, shared) for _ in range(LAYERS)))
        head = self.matrix(head_kind, VOCAB, HIDDEN)
        self.model = Model(
            layers=LAYERS,
            hidden=HIDDEN,
            heads=HEADS,
            groups=GROUPS,
            head=HEAD,
            rotary=HEAD,
            form=Kind.BF16,
            page=PAGE,
            threads=threads,
            epsilon=1e-6,
            scale=HEAD**-0.5,
            embedding_scale=1,
            residual_scale=1,
            embedding=head,
            head_matrix=head,
            last_norm=shared["before_mlp"],
            layer=layers,
        )

    def address(self, tensor: Tensor) -> int:
        self.held.append(tensor)
        return tensor.data_ptr()

    def filled(self, size: int, value: Callable[[int], Tensor]) -> int:
        """The address of so many bytes, in huge pages as those of real weights."""
        memory = reserved(size)
        memory[:] = value(size)
        return self.address(memory)

    def matrix(self, kind: Kind, outputs: int, inputs: int, biased: bool = False) -> Matrix:
        """Of random values in no order, since that changes no time."""
        size = library().matrix_bytes(kind, outputs, inputs)
        scales = library().matrix_scale_bytes(kind, outputs, inputs)
        self.weight_bytes += size + scales
        return Matrix(
            kind,
            outputs,
            inputs,
            -(-inputs // 32) * 32,
            self.filled(size, noise if kind in (Kind.INT8, Kind.INT4) else small),
            self.filled(scales, small) if scales else None,
            self.address(torch.zeros(outputs)) if biased else None,
        )

    def layer(self, kind: Kind, shared: dict[str, int]) -> Layer:
        matrices = {name: self.matrix(kind, *size, name in BIASED) for name, size in SIZES.items()}
        pool = (self.pages + 1) * PAGE * GROUPS * HEAD * 2
        keys, values = (self.address(small(pool)) for _ in range(2))
        return Layer(**matrices, **shared, keys=keys, values=values)

    def step(self, tokens: list[int], held: int) -> Callable[[], None]:
        """A step of rows that take so many tokens and hold `held` each, one token of each wanted."""
        places, each = torch.randperm(self.pages), -(-(held + max(tokens)) // PAGE)
        owned = [places.roll(-row * each)[:each] for row in range(len(tokens))]
        ends = torch.tensor(tokens).cumsum(0)
        positions = torch.cat([torch.arange(held, held + count) for count in tokens])
        row = torch.repeat_interleave(torch.arange(len(tokens)), torch.tensor(tokens))
        pages = torch.cat(owned)
        tables = torch.arange(len(tokens)) * each
        tensors = {
            "ids": torch.randint(VOCAB, (sum(tokens),)),
            "positions": positions,
            "slots": pages[tables[row] + positions // PAGE] * PAGE + positions % PAGE,
            "starts": torch.cat((torch.tensor([0]), ends)),
            "lengths": held + torch.tensor(tokens),
            "tables": tables,
            "pages": pages,
            "want": ends - 1,
            "logits": torch.empty(len(tokens), VOCAB, dtype=torch.bfloat16),
        }
        step = Step(tokens=sum(tokens), rows=len(tokens), wanted=len(tokens))
        for name, tensor in tensors.items():
            setattr(step, name, self.address(tensor))
        step.memory = self.filled(library().step_bytes(self.model, step), torch.zeros)
        return lambda: library().step_run(ctypes.byref(self.model), ctypes.byref(step))


def noise(size: int) -> Tensor:
    return torch.randint(256, (size,), dtype=torch.uint8)


def small(size: int) -> Tensor:
    return (torch.randn(size // 2) / 32).bfloat16().view(torch.uint8)


def seconds(of: Callable[[], object], least: float = 1.0) -> float:
    """The least of runs that take so long together: others on the machine only ever add to it."""
    of()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        start = time.perf_counter()
        of()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="BF16", choices=[kind.name for kind in Kind])
    parser.add_argument("--head-kind", choices=[kind.name for kind in Kind])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="steps whose name begins so")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kind = Kind[given.kind]
    random = Random(kind, Kind[given.head_kind] if given.head_kind else kind, given.threads)
    large = torch.ones(1 << 27, dtype=torch.int64)
    print(f"{kind.name}: {random.weight_bytes / 1e6:.0f} MB of weights, {given.threads} threads")
    for name, (tokens, held) in STEPS.items():
        if not name.startswith(given.only):
            continue
        bandwidth = large.nbytes / seconds(large.sum, 0.3)
        took = seconds(random.step(tokens, held))
        least = random.weight_bytes / bandwidth
        print(
            f"{name:20} {took * 1e3:8.1f} ms  {sum(tokens) / took:7.0f} tokens/s"
            f"  {least / took:6.1%} of reading the weights at {bandwidth / 1e9:.1f} GB/s"
        )


if __name__ == "__main__":
    main()
