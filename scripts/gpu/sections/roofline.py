"""Compares the decoding speed of one sequence with the limit that memory bandwidth sets.

Bytes per token: the weights, except an embedding that is not also the output matrix, and the KV cache of
earlier tokens. The bandwidth is measured by copying a large tensor; bytes read and bytes written both count.
"""

from collections.abc import Iterator
from typing import Any

from inference.model.kv_cost import KVCost
from scripts.gpu.device import measure_bandwidth
from scripts.gpu.engine import PROMPT
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

STEPS = 256


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine, steps = run.engines.get(), run.choose(STEPS, 8)
    bytes_per_s = measure_bandwidth(run.bench.device)
    yield Figure("copy bandwidth", bytes_per_s / 1e9, "GB/s", "read and written")
    size = weight_bytes_read(engine.model) + kv_bytes_read(engine.selected.kv_cost, PROMPT + steps / 2)
    yield Figure("bytes per token", size / 1e9, "GB")
    seconds = engine.decode_step_s(1, steps)
    yield Figure("decode, 1 row", seconds * 1e3, "ms", f"{1 / seconds:.1f} tokens/s")
    share = size / bytes_per_s / seconds
    yield Figure("share of roofline", 100 * share, "%", f"{run.bench.dtype}, {engine.selected.name}")


def kv_bytes_read(kv_cost: KVCost, num_tokens: float) -> float:
    """Bytes of keys and values that decoding one token after num_tokens others reads."""
    windowed = sum(num_bytes * min(window, num_tokens) for window, num_bytes in kv_cost.windowed)
    return kv_cost.per_token * num_tokens + windowed


def weight_bytes_read(model: Any) -> int:
    """Bytes of the weights that decoding one token reads."""
    all_bytes = sum(weight.nbytes for weight in model.parameters())
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    return all_bytes - (0 if embedding.weight is head.weight else embedding.weight.nbytes)
