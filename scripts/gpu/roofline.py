"""Compares the decoding speed of one sequence with the limit that memory bandwidth sets.

Bytes per token: the weights, except an embedding that is not also the output matrix, and the KV cache of
earlier tokens. The bandwidth is measured by copying a large tensor; bytes read and bytes written both count.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch

from scripts.gpu.engine import PROMPT, SteppedEngine
from scripts.gpu.section import ReportRow, SectionOptions

STEPS = 128
TURNS = 20
COPIED_BYTES = {"cuda": 4 << 30, "cpu": 256 << 20}  # far larger than any cache
GOAL = 0.80


def measure_section(options: SectionOptions) -> Iterator[ReportRow]:
    engine = SteppedEngine(options.bench)
    with engine.decoding(1, STEPS):
        seconds = median(engine.step() for _ in range(STEPS))
    num_cached_tokens = PROMPT + STEPS / 2
    size = weight_bytes_read(engine.model) + num_cached_tokens * engine.selected.bytes_per_token
    bytes_per_s = measure_bandwidth(options.bench.device)
    yield (
        "model",
        options.bench.model,
        f"{options.bench.dtype}, {engine.selected.name}",
    )
    yield "copy bandwidth", f"{bytes_per_s / 1e9:.0f} GB/s", "read and written"
    yield "bytes per token", f"{size / 1e9:.3f} GB", ""
    yield "decode, batch 1", f"{seconds * 1e3:.3f} ms", f"{1 / seconds:.1f} tokens/s"
    share = size / bytes_per_s / seconds
    yield "share of roofline", f"{100 * share:.1f} %", f"goal: {100 * GOAL:.0f} %, for 8b on a GPU"


def weight_bytes_read(model: Any) -> int:
    """Bytes of the weights that decoding one token reads."""
    all_bytes = sum(weight.nbytes for weight in model.parameters())
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    return all_bytes - (0 if embedding.weight is head.weight else embedding.weight.nbytes)


def measure_bandwidth(device: str) -> float:
    """Bytes read and written per second by a copy, best of TURNS."""
    source = torch.zeros(COPIED_BYTES[device] // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    best = min(time_call(lambda: target.copy_(source), device) for _ in range(TURNS))
    return 2 * source.nbytes / best


def time_call(call: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start_s = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start_s
