"""CUDA graphs for steps of few tokens: the host launches one graph instead of hundreds of kernels.

There is a graph for 1, 2, 4, … tokens, in which each token is a row of its own; a smaller step is padded
with tokens on the padding page. Each graph is verified against the same step computed directly. If one is
wrong, or cannot be captured, all steps are computed directly. Knows AttnMetadata; cuda.py captures.
"""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from inference.model.batch import Batch
from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan, build_metadata
from inference.model.paged.kernels.page_table import PageTable, cache_key
from inference.model.paged.runner import PagedRunner

log = logging.getLogger(__name__)

MAX_TOKENS = 256  # tokens of a captured step; in larger steps the host stays ahead of the device anyway
# New tokens of a row in a captured step: a graph reads the row's pages once for each of them, and for more
# tokens that costs more than the graph saves.
MAX_ROW_TOKENS = 16
MIN_VOCAB = 64  # token ids that every vocabulary has
# Seconds for the graphs between the smallest and the largest. Graphs that would exceed it are left out, the
# larger ones first.
MAX_CAPTURE_S = 60.0

Replay = Callable[[], torch.Tensor]
Capture = Callable[[Replay], Replay]  # computes logits → computes them again, from and to the same addresses


class CapturedGraph:
    """The graph of a step of `count` tokens, and its inputs in tensors of fixed addresses.

    It reads the runner's KV memory at its present addresses: the memory must not be resized afterwards.
    """

    def __init__(self, runner: PagedRunner, count: int, capture: Capture) -> None:
        device, self.page_size, self.count = runner.device, runner.page_size, count
        num_pages = -(-runner.context // self.page_size)
        self.padding_span = QuerySpan(0, 1, 1, (runner.pool.num_pages,))
        self.token_ids = torch.zeros(1, count, dtype=torch.int64, device=device)
        self.positions = torch.zeros_like(self.token_ids)
        self.slot_mapping = torch.zeros_like(self.token_ids[0])
        self.page_table = PageTable(count, num_pages, device, max_query_len=1, max_seq_len=runner.context)
        self.spans: list[QuerySpan] = []
        self.set_spans([])
        self.replay_graph = capture(lambda: PagedRunner.compute(runner, self.build_metadata()))

    def build_metadata(self) -> AttnMetadata:
        """New metadata for each run: the capture must include what kernels compute into per_step_cache."""
        per_step_cache = {cache_key(self.slot_mapping.device): self.page_table}
        return AttnMetadata(
            self.token_ids,
            self.positions,
            self.slot_mapping,
            None,
            self.spans,
            self.page_size,
            per_step_cache=per_step_cache,
        )

    def set_spans(self, spans: Sequence[QuerySpan]) -> None:
        """Make each token a row that ends with this token; pad with tokens on the padding page."""
        tokens = [
            QuerySpan(0, 1, span.length - span.end + at + 1, span.pages)
            for span in spans
            for at in range(span.start, span.end)
        ]
        tokens += [self.padding_span] * (self.count - len(tokens))
        self.spans = [QuerySpan(at, at + 1, token.length, token.pages) for at, token in enumerate(tokens)]
        self.page_table.fill(self.spans)

    def replay(self, metadata: AttnMetadata) -> torch.Tensor:
        """The logits (T, V) of all tokens of a step, T ≤ count; valid until the next replay."""
        T = metadata.token_ids.shape[1]
        self.token_ids[:, :T] = metadata.token_ids
        self.positions[:, :T] = metadata.positions
        self.slot_mapping[:T] = metadata.slot_mapping
        self.slot_mapping[T:] = self.padding_span.pages[0] * self.page_size
        self.set_spans(metadata.spans)
        return self.replay_graph()[:T]


class GraphRunner(PagedRunner):
    """A PagedRunner that replays graphs for steps that fit one, and computes other steps directly."""

    graphs: tuple[CapturedGraph, ...] = ()  # the smallest first

    def compute(self, metadata: AttnMetadata) -> torch.Tensor:
        graph = self.graph_for(metadata)
        if graph is None:
            return super().compute(metadata)
        logits = graph.replay(metadata)
        return logits if metadata.logits_indices is None else logits.index_select(0, metadata.logits_indices)

    def graph_for(self, metadata: AttnMetadata) -> CapturedGraph | None:
        if max(span.end - span.start for span in metadata.spans) > MAX_ROW_TOKENS:
            return None
        return next((each for each in self.graphs if each.count >= metadata.token_ids.shape[1]), None)

    @torch.inference_mode()
    def capture_graphs(
        self, capture: Capture, tolerance: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Capture and verify the graphs. If captures are slow, some of the larger ones are left out.

        tolerance: the largest difference of a logit allowed, in standard deviations of the logits. Uses the
        first pages, and zeroes them afterwards.
        """
        began, name = clock(), self.model.config.model_type
        sizes = capture_sizes(min(self.max_sequences, self.pool.num_pages))
        pending = capture_order(sizes)
        graphs: dict[int, CapturedGraph] = {}
        with self.attention.installed():
            while pending:
                count, capture_began = pending.pop(0), clock()
                try:
                    graphs[count] = self.capture_and_verify(count, capture, tolerance)
                except torch.OutOfMemoryError:
                    log.info("%s: no memory for a CUDA graph of %d tokens", name, count)
                except Exception as raised:  # any model's code, and any error of the device
                    log.info("%s: CUDA graphs are not used: %s: %s", name, type(raised).__name__, raised)
                    return
                if count == sizes[0]:
                    seconds = clock() - capture_began
                    while len(pending) * seconds > MAX_CAPTURE_S:
                        pending.pop(0)
        self.graphs = tuple(graphs[count] for count in sorted(graphs))
        captured = ", ".join(map(str, sorted(graphs))) or "no"
        log.info("%s: captured CUDA graphs of %s tokens in %.1f s", name, captured, clock() - began)

    def capture_and_verify(self, count: int, capture: Capture, tolerance: float) -> CapturedGraph:
        """Capture the graph of `count` tokens and replay it once. Raises ArithmeticError for wrong logits."""
        began = time.monotonic()
        graph = CapturedGraph(self, count, capture)
        before, step = verification_batches(count, self.pool.num_pages, min(self.page_size, self.context))
        try:
            PagedRunner.compute(self, build_metadata(before, self.page_size, self.device))
            metadata = build_metadata(step, self.page_size, self.device)
            replayed = graph.replay(metadata).float()  # first, so that it finds no results of compute()
            computed = PagedRunner.compute(self, metadata).float()
        finally:
            for (page,) in step.page_table:
                self.pool.clear(page)
        error = ((replayed - computed).abs().max() / computed.std()).item()
        if not error <= tolerance:
            raise ArithmeticError(f"the CUDA graph of {count} tokens has error {error:.0e}")
        log.debug("captured tokens=%d error=%.0e seconds=%.1f", count, error, time.monotonic() - began)
        return graph


def capture_sizes(rows: int) -> list[int]:
    """Tokens of the graphs to capture: powers of two, the last at least `rows` (or MAX_TOKENS)."""
    last = (min(rows, MAX_TOKENS) - 1).bit_length()
    return [1 << power for power in range(last + 1)]


def capture_order(sizes: Sequence[int]) -> list[int]:
    """The largest graph first: smaller ones reuse its memory. Then the smallest, then the others downwards.

    The first capture takes longest, because it compiles kernels. The second shows how long a capture takes.
    """
    *smaller, largest = sizes
    return [largest, *smaller[:1], *smaller[:0:-1]]


def verification_batches(count: int, num_pages: int, max_row_tokens: int) -> tuple[Batch, Batch]:
    """A step that fills each row's cache, and the step of at most `count` tokens to verify.

    Where `count` allows, the second has a row of several tokens, and one padding token in the graph. Each row
    has one page and at most max_row_tokens tokens.
    """
    several = 3 if count > 4 else 1
    rows = min(max(1, count - several), num_pages)
    num_computed = [1 + (5 * row) % max(1, max_row_tokens - several) for row in range(rows)]
    num_new = [several, *[1] * (rows - 1)]
    return make_batch(num_computed, [0] * rows), make_batch(num_new, num_computed)


def make_batch(num_new: Sequence[int], num_computed: Sequence[int]) -> Batch:
    query_start_loc = list(accumulate(num_new, initial=0))
    rows = range(len(num_new))
    ids = [(7 * i + 3 * num_computed[0]) % MIN_VOCAB for i in range(query_start_loc[-1])]
    return Batch(
        ids,
        query_start_loc,
        num_computed,
        rows,
        range(len(ids)),
        page_table=[(row,) for row in reversed(rows)],
    )
