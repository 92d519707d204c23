"""Times a decode graph whose layers are compiled in different ways, on a GPU.

Each way is compiled in some 5 seconds. The graph is replayed without an engine: the host takes no part.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from inference.model.best_times import seconds_of
from inference.model.paged.captured_graph import DecodeGraph, SharedTensors
from inference.model.paged.compiled_layers import CompiledAttention, CompiledLayers
from inference.model.paged.cuda import CudaGraphRecorder
from inference.model.paged.cuda_graphs import GraphRunner
from inference.model.paged.kernels.select import import_kernel
from inference.model.paged.kernels.store import select_rotary_store, select_store
from inference.model.paged.kv_pool import PAGE_SIZE, KVPool, rotate_and_store
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROWS, CONTEXT = (1, 64), 512
NUM_REPEATS, REPLAYS = 5, 20
TOLERANCE = 1.0  # standard deviations of the logits: random weights in 16 bits amplify rounding
MAX_COMPILED = 64  # layers share a function, and each variant is compiled for one token and for several


class LayerVariant(NamedTuple):
    """A way to compile the layers. fuses_rotary: see CompiledLayers. options: of torch's compiler."""

    name: str
    fuses_rotary: bool
    options: dict[str, Any]


def variants() -> Iterator[LayerVariant]:
    dependent_launches = {"triton.enable_pdl": True}  # a kernel is launched while the one before it runs
    yield LayerVariant("three kernels for rotary embedding and store", False, {})
    yield LayerVariant("one kernel for rotary embedding and store", True, {})
    yield LayerVariant("one kernel, dependent launches", True, dependent_launches)


def measure_section(run: SectionRun) -> Iterator[Figure]:
    if run.bench.device != "cuda":
        yield Figure("compiled layers", "none", remark="needs a GPU")
        return
    model = run.engines.get().model
    for variant in variants():
        began = time.perf_counter()
        for rows, seconds in time_variant(model, variant).items():
            yield Figure(f"{rows} rows, {variant.name}", seconds * 1e6, "us a step")
        yield Figure(f"compiling and timing, {variant.name}", time.perf_counter() - began, "s")


@torch.inference_mode()
def time_variant(model: Any, variant: LayerVariant) -> dict[int, float]:
    """Seconds of a decode graph by its rows: the best of NUM_REPEATS."""
    from torch._inductor import config

    rotary_store = select_rotary_store(model) if variant.fuses_rotary else rotate_and_store
    if rotary_store is None:
        return {}
    with config.patch(variant.options), torch._dynamo.config.patch(recompile_limit=MAX_COMPILED):
        layers = CompiledLayers(model, variant.fuses_rotary)
        return {rows: time_graph(make_runner(model, rows, layers, rotary_store), rows) for rows in ROWS}


def make_runner(model: Any, rows: int, layers: CompiledLayers, rotary_store: Any) -> GraphRunner:
    create_attention: Any = partial(CompiledAttention, layers=layers)
    runner = GraphRunner(
        model,
        KVPool(rows * CONTEXT // PAGE_SIZE, store=select_store(model), rotary_store=rotary_store),
        max_sequences=rows,
        context=CONTEXT,
        kernel=import_kernel("triton"),
        create_attention=create_attention,
    )
    runner.probe()
    return runner


def time_graph(runner: GraphRunner, rows: int) -> float:
    graph = runner.capture_and_verify(
        DecodeGraph,
        rows,
        CudaGraphRecorder(runner.device),
        SharedTensors(runner, rows, 0),
        tolerance=TOLERANCE,
    )

    def replay() -> None:
        for _ in range(REPLAYS):
            graph.replay_graph()

    return min(seconds_of(replay) for _ in range(NUM_REPEATS)) / REPLAYS
