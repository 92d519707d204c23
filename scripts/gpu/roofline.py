"""Decoding alone against what the memory's bandwidth allows: every weight is read once for each token.

Bytes of a token: the weights, without those of an embedding that only gives a row, and the keys and values
of the tokens before. Bandwidth: measured, a large tensor copied, bytes read and bytes written.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch

from scripts.gpu.part import Asked, Line
from scripts.gpu.served import PROMPT, Served

STEPS = 128
TURNS = 20
COPIED = {"cuda": 4 << 30, "cpu": 256 << 20}  # bytes; far beyond any cache
GOAL = 0.80


def lines(asked: Asked) -> Iterator[Line]:
    served = Served(asked.terms)
    with served.decoding(1, STEPS):
        seconds = median(served.step() for _ in range(STEPS))
    held = PROMPT + STEPS / 2
    size = weights_read(served.model) + held * served.fitted.bytes_per_token
    rate = bandwidth(asked.terms.device)
    yield "model", asked.terms.model, f"{asked.terms.dtype}, {served.fitted.name}"
    yield "copy bandwidth", f"{rate / 1e9:.0f} GB/s", "read and written"
    yield "bytes per token", f"{size / 1e9:.3f} GB", ""
    yield "decode, batch 1", f"{seconds * 1e3:.3f} ms", f"{1 / seconds:.1f} tokens/s"
    share = size / rate / seconds
    yield "share of roofline", f"{100 * share:.1f} %", f"goal: {100 * GOAL:.0f} %, for 8b on a GPU"


def weights_read(model: Any) -> int:
    """Bytes of the weights that a token's computation reads."""
    every = sum(weight.nbytes for weight in model.parameters())
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    return every - (0 if table.weight is head.weight else table.weight.nbytes)


def bandwidth(device: str) -> float:
    """Bytes per second, the best of a few."""
    source = torch.zeros(COPIED[device] // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    best = min(timed(lambda: target.copy_(source), device) for _ in range(TURNS))
    return 2 * source.nbytes / best


def timed(work: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began
