"""A paged runner with CUDA graphs of whole steps: the host launches one graph instead of hundreds of kernels.

Each graph is verified against the same step computed directly. If one is wrong, or cannot be captured, the
steps of its kind are computed directly. Knows which graphs are worth their time and memory.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from inference.model.forward_pass.pooling import Span
from inference.model.forward_pass.step_adapters import StepAdapters
from inference.model.paged.attn_metadata import StepMetadata, build_metadata
from inference.model.paged.captured_graph import (
    Capture,
    CapturedGraph,
    DecodeGraph,
    MixedGraph,
    PagesShape,
    SharedTensors,
)
from inference.model.paged.runner import PagedRunner

log = logging.getLogger(__name__)

MAX_DECODE_TOKENS = 256  # tokens of the largest decode graph
# Tokens of mixed graphs. A larger step keeps the device busy for longer than the host takes to launch it.
MIXED_TOKENS = (32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048)
# Seconds for the graphs between the smallest and the largest. Graphs that would exceed it are left out, the
# larger ones first.
MAX_CAPTURE_S = 60.0


class GraphRecording(NamedTuple):
    """How a runner's graphs are captured.

    tolerance  the largest difference of a logit, in standard deviations of the logits
    """

    capture: Capture
    tolerance: float
    shared: SharedTensors


GraphKind = type[DecodeGraph] | type[MixedGraph]
GRAPH_KINDS: tuple[GraphKind, ...] = (DecodeGraph, MixedGraph)


class GraphRunner(PagedRunner):
    """A PagedRunner that replays graphs for steps that fit one, and computes other steps directly."""

    graphs: tuple[CapturedGraph, ...] = ()  # the first that supports a step is replayed
    recording: GraphRecording | None = None  # of the last capture_graphs

    def compute(
        self,
        metadata: StepMetadata,
        pooled_spans: Sequence[Span] = (),
        adapters: StepAdapters | None = None,
    ) -> torch.Tensor:
        graph = next((graph for graph in self.graphs if graph.supports(metadata)), None)
        if graph is None or pooled_spans or adapters:
            return super().compute(metadata, pooled_spans, adapters)
        return graph.replay(metadata)

    @torch.inference_mode()
    def capture_graphs(
        self,
        capture: Capture,
        tolerance: float,
        max_batch_tokens: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Capture and verify the graphs. If captures are slow, some of the larger ones are left out.

        tolerance: the largest difference of a logit allowed, in standard deviations of the logits.
        max_batch_tokens: tokens of the largest step. Uses the first pages, and zeroes them afterwards.
        """
        began, name = clock(), self.model.config.model_type
        decode = decode_sizes(min(self.max_sequences, self.pool.num_pages))
        mixed = mixed_sizes(min(max_batch_tokens, self.kv_capacity))
        pending = capture_order(decode, mixed)
        shared = SharedTensors(self, max(self.max_sequences, decode[-1]), max(mixed, default=0))
        self.recording = GraphRecording(capture, tolerance, shared)
        graphs: list[CapturedGraph] = []
        while pending:
            (kind, count), capture_began = pending.pop(0), clock()
            try:
                graphs.append(self.capture_and_verify(kind, count, capture, shared, tolerance))
            except torch.OutOfMemoryError:
                log.info("%s: no memory for a %s of %d tokens", name, kind.__name__, count)
            except Exception as raised:  # any model's code, and any error of the device
                log.info("%s: no %s is used: %s: %s", name, kind.__name__, type(raised).__name__, raised)
                pending = [each for each in pending if each[0] is not kind]
                graphs = [graph for graph in graphs if type(graph) is not kind]
            if (kind, count) == (DecodeGraph, 1):
                seconds = clock() - capture_began
                while len(pending) * seconds > MAX_CAPTURE_S:
                    pending.pop(0)
        self.graphs = tuple(sorted(graphs, key=lambda graph: (type(graph) is MixedGraph, graph.count)))
        for each in GRAPH_KINDS:
            sizes = ", ".join(str(graph.count) for graph in self.graphs if type(graph) is each) or "no"
            log.info("%s: captured %ss of %s tokens", name, each.__name__, sizes)
        log.info("%s: captured all graphs in %.1f s", name, clock() - began)

    def capture_and_verify(
        self,
        kind: GraphKind,
        count: int,
        capture: Capture,
        shared: SharedTensors,
        tolerance: float,
    ) -> CapturedGraph:
        """Capture the graph of `count` tokens and replay it once. Raises ArithmeticError for wrong logits."""
        began = time.monotonic()
        graph = kind(self, count, capture, shared)
        num_pages = min(map(self.pool.num_pages_of, self.pool.groups))
        shape = PagesShape(
            self.max_sequences, self.context, num_pages, self.page_size, len(self.window_groups)
        )
        before, step = kind.verification_batches(count, shape)
        try:
            PagedRunner.compute(self, build_metadata(before, self.page_size, self.device))
            metadata = build_metadata(step, self.page_size, self.device)
            replayed = graph.replay(metadata).float()  # first, so that it finds no results of compute()
            computed = PagedRunner.compute(self, metadata).float()
        finally:
            for group in self.pool.groups:
                self.pool.clear({page for pages in step.page_table for page in pages}, group)
        error = ((replayed - computed).abs().max() / computed.std()).item()
        if not error <= tolerance:
            raise ArithmeticError(f"the {kind.__name__} of {count} tokens has error {error:.0e}")
        log.debug("captured kind=%s tokens=%d error=%.0e", kind.__name__, count, error)
        log.debug("captured seconds=%.1f", time.monotonic() - began)
        return graph


def decode_sizes(rows: int) -> list[int]:
    """Tokens of the decode graphs: powers of two, the last at least `rows` (or MAX_DECODE_TOKENS)."""
    last = (min(rows, MAX_DECODE_TOKENS) - 1).bit_length()
    return [1 << power for power in range(last + 1)]


def mixed_sizes(max_batch_tokens: int) -> list[int]:
    """Tokens of the mixed graphs: those of MIXED_TOKENS that steps of up to `max_batch_tokens` need."""
    return [count for at, count in enumerate(MIXED_TOKENS) if max_batch_tokens > (0, *MIXED_TOKENS)[at]]


def capture_order(decode: Sequence[int], mixed: Sequence[int]) -> list[tuple[GraphKind, int]]:
    """The order of captures: the largest graph of each kind, the smallest, then the others downwards.

    Smaller graphs reuse the memory of the largest. The first captures take longest, because they compile
    kernels. The smallest shows how long one takes.
    """
    *smaller, largest = decode
    first = [(MixedGraph, count) for count in mixed[-1:]] + [(DecodeGraph, largest)]
    others = [(MixedGraph, count) for count in mixed[-2::-1]] + [(DecodeGraph, n) for n in smaller[:0:-1]]
    return [*first, *[(DecodeGraph, count) for count in smaller[:1]], *others]
