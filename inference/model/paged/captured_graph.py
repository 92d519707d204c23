"""A captured step: one CUDA graph, and its inputs in tensors of fixed addresses.

Two kinds, each for several numbers of tokens; a smaller step is padded. In a decode graph each token is a row
of its own, which reads all its pages. A mixed graph has rows of any number of tokens: prompts, and rows that
decode beside them. Knows AttnMetadata; cuda.py captures.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from inference.model.batch import Batch, make_batch
from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan, StepMetadata
from inference.model.paged.kernels.page_table import PageTable, cache_key
from inference.model.paged.runner import PagedRunner

# New tokens of a row in a decode graph: it reads the row's pages once for each of them, and for more tokens
# that costs more than it saves.
MAX_ROW_TOKENS = 16
MIN_VOCAB = 64  # token ids that every vocabulary has

Replay = Callable[[], torch.Tensor]
Capture = Callable[[Replay], Replay]  # computes logits → computes them again, from and to the same addresses


class PagesShape(NamedTuple):
    """The sizes of a runner and its pages that verification steps must fit.

    num_pages    of the smallest cache group
    num_windows  window groups
    """

    max_sequences: int
    context: int
    num_pages: int
    page_size: int
    num_windows: int


class SharedTensors:
    """What graphs share, because only one of them runs at a time.

    rows         N, the logits of the largest graph
    mixed_count  tokens of the largest mixed graph
    logits       (N, V), allocated by the first graph: each would keep its own otherwise, as its output is in
                 use for ever
    """

    def __init__(self, runner: PagedRunner, rows: int, mixed_count: int) -> None:
        self.runner, self.rows, self.mixed_count = runner, rows, mixed_count
        self.logits: torch.Tensor | None = None

    def store_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Copy logits (n, V), n ≤ N, into the first rows, and return these."""
        if self.logits is None:
            self.logits = logits.new_empty(self.rows, logits.shape[1])
        return self.logits[: len(logits)].copy_(logits)

    @cached_property
    def mixed_page_tables(self) -> list[PageTable]:
        """The page tables of all mixed graphs: for a long context they take many MB."""
        return new_page_tables(self.runner, self.runner.max_sequences, self.mixed_count)


def new_page_tables(runner: PagedRunner, rows: int, max_query_len: int) -> list[PageTable]:
    """A page table for each cache group."""
    num_pages, max_seq_len = -(-runner.context // runner.page_size), runner.context
    return [
        PageTable(rows, num_pages, runner.device, max_query_len=max_query_len, max_seq_len=max_seq_len)
        for _ in runner.pool.groups
    ]


class CapturedGraph:
    """A graph of a step of `count` tokens in the rows of its page tables, and its inputs at fixed addresses.

    It reads the runner's KV memory at its present addresses: the memory must not be resized afterwards.
    """

    def __init__(
        self,
        runner: PagedRunner,
        capture: Capture,
        shared: SharedTensors,
        *,
        count: int,
        page_tables: Sequence[PageTable],
        logits_indices: torch.Tensor | None,
    ) -> None:
        self.page_size, self.count, self.page_tables = runner.page_size, count, page_tables
        self.padding_pages = [runner.pool.num_pages_of(group) for group in runner.pool.groups]
        self.token_ids = torch.zeros(1, count, dtype=torch.int64, device=runner.device)
        self.positions = torch.zeros_like(self.token_ids)
        # The last slots, so that rows on a padding page may have the others.
        self.padding_slots = [(page + 1) * self.page_size - 1 for page in self.padding_pages]
        self.slot_mappings = [torch.full_like(self.token_ids[0], slot) for slot in self.padding_slots]
        self.num_tokens = 0  # of the latest step: the others have the padding slot
        self.logits_indices = logits_indices
        self.set_spans([[] for _ in page_tables])
        self.replay_graph = capture(
            lambda: shared.store_logits(PagedRunner.compute(runner, self.build_metadata()))
        )

    def build_metadata(self) -> StepMetadata:
        """New metadata for each run: the capture must include what kernels compute into per_step_cache."""
        return tuple(map(self.group_metadata, self.slot_mappings, self.spans, self.page_tables))

    def group_metadata(
        self, slot_mapping: torch.Tensor, spans: list[QuerySpan], page_table: PageTable
    ) -> AttnMetadata:
        per_step_cache: dict[Hashable, Any] = {cache_key(slot_mapping.device): page_table}
        return AttnMetadata(
            self.token_ids,
            self.positions,
            slot_mapping,
            self.logits_indices,
            spans,
            self.page_size,
            per_step_cache=per_step_cache,
        )

    def supports(self, metadata: StepMetadata) -> bool:
        """Whether the graph computes this step."""
        raise NotImplementedError

    def set_spans(self, group_spans: Sequence[Sequence[QuerySpan]]) -> None:
        """Make the spans of each cache group the rows of the graph, and pad them to its number of rows."""
        self.spans = list(map(self.pad_spans, group_spans, self.padding_pages))
        for page_table, spans in zip(self.page_tables, self.spans, strict=True):
            page_table.fill(spans)

    def pad_spans(self, spans: Sequence[QuerySpan], padding_page: int) -> list[QuerySpan]:
        raise NotImplementedError

    def replay(self, metadata: StepMetadata) -> torch.Tensor:
        """The logits of the tokens that the step asks for; valid until the next replay."""
        T = metadata[0].token_ids.shape[1]
        inputs, values = zip(*self.input_copies(metadata), strict=True)
        torch._foreach_copy_(inputs, values)  # by one launch
        if self.num_tokens > T:
            for mapping, padding_slot in zip(self.slot_mappings, self.padding_slots, strict=True):
                mapping[T : self.num_tokens] = padding_slot
        self.num_tokens = T
        self.set_spans([group.spans for group in metadata])
        return self.replay_graph()

    def input_copies(self, metadata: StepMetadata) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The int64 inputs that a step of T tokens changes, and their new values."""
        T = metadata[0].token_ids.shape[1]
        yield self.token_ids[0, :T], metadata[0].token_ids[0]
        yield self.positions[0, :T], metadata[0].positions[0]
        for mapping, group in zip(self.slot_mappings, metadata, strict=True):
            yield mapping[:T], group.slot_mapping


class DecodeGraph(CapturedGraph):
    """Each token is a row that ends with this token. Padding tokens are rows on the padding page."""

    def __init__(self, runner: PagedRunner, count: int, capture: Capture, shared: SharedTensors) -> None:
        page_tables = new_page_tables(runner, count, max_query_len=1)
        super().__init__(runner, capture, shared, count=count, page_tables=page_tables, logits_indices=None)

    def supports(self, metadata: StepMetadata) -> bool:
        fits = metadata[0].token_ids.shape[1] <= self.count
        return fits and max(span.end - span.start for span in metadata[0].spans) <= MAX_ROW_TOKENS

    def pad_spans(self, spans: Sequence[QuerySpan], padding_page: int) -> list[QuerySpan]:
        tokens = [
            (span.length - span.end + at + 1, span.pages)
            for span in spans
            for at in range(span.start, span.end)
        ]
        tokens += [(1, (padding_page,))] * (self.count - len(tokens))
        return [QuerySpan(at, at + 1, length, pages) for at, (length, pages) in enumerate(tokens)]

    def replay(self, metadata: StepMetadata) -> torch.Tensor:
        logits, indices = super().replay(metadata), metadata[0].logits_indices
        return (
            logits[: metadata[0].token_ids.shape[1]] if indices is None else logits.index_select(0, indices)
        )

    @staticmethod
    def verification_batches(count: int, shape: PagesShape) -> tuple[Batch, Batch]:
        """A step that fills each row's cache, and the step of at most `count` tokens to verify.

        Where `count` allows, the second has a row of several tokens, and one padding token in the graph. Each
        row has one page.
        """
        most = min(shape.page_size, shape.context)
        several = 3 if count > 4 else 1
        rows = min(max(1, count - several), shape.num_pages)
        num_computed = [1 + (5 * row) % max(1, most - several) for row in range(rows)]
        num_new = [several, *[1] * (rows - 1)]
        pages = [(row,) for row in reversed(range(rows))]
        return (
            verification_batch(num_computed, [0] * rows, pages, shape),
            verification_batch(num_new, num_computed, pages, shape),
        )


class MixedGraph(CapturedGraph):
    """Rows as they are, at most `max_sequences`, with at most as many logits.

    Padding tokens belong to no row: attention leaves their output undefined, and nothing reads it.
    """

    def __init__(self, runner: PagedRunner, count: int, capture: Capture, shared: SharedTensors) -> None:
        self.rows = runner.max_sequences
        indices = torch.zeros(self.rows, dtype=torch.int64, device=runner.device)
        page_tables = shared.mixed_page_tables
        super().__init__(
            runner, capture, shared, count=count, page_tables=page_tables, logits_indices=indices
        )

    def supports(self, metadata: StepMetadata) -> bool:
        num_tokens, indices = metadata[0].token_ids.shape[1], metadata[0].logits_indices
        return num_tokens <= self.count and indices is not None and len(indices) <= self.rows

    def pad_spans(self, spans: Sequence[QuerySpan], padding_page: int) -> list[QuerySpan]:
        end = spans[-1].end if spans else 0
        return [*spans, *[QuerySpan(end, end, 0, ())] * (self.rows - len(spans))]

    def replay(self, metadata: StepMetadata) -> torch.Tensor:
        indices = metadata[0].logits_indices
        assert indices is not None
        return super().replay(metadata)[: len(indices)]

    def input_copies(self, metadata: StepMetadata) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield from super().input_copies(metadata)
        indices = metadata[0].logits_indices
        assert self.logits_indices is not None and indices is not None
        yield self.logits_indices[: len(indices)], indices

    @staticmethod
    def verification_batches(count: int, shape: PagesShape) -> tuple[Batch, Batch]:
        """As DecodeGraph's: a prompt of as many tokens as fit, beside up to three rows that decode."""
        num_decoding = min(3, shape.max_sequences - 1, shape.num_pages - 1)
        most = min((shape.num_pages - num_decoding) * shape.page_size, shape.context) - 1
        num_new = [max(1, min(count - num_decoding - 1, most)), *[1] * num_decoding]
        num_computed = [1, *range(5, 5 + num_decoding)]
        num_pages = -(-(num_new[0] + 1) // shape.page_size)
        pages = [
            tuple(range(num_decoding, num_decoding + num_pages)),
            *[(page,) for page in range(num_decoding)],
        ]
        before = verification_batch(num_computed, [0] * len(pages), pages, shape)
        step = verification_batch(num_new, num_computed, pages, shape)
        last_tokens = [end - 1 for end in accumulate(num_new)]  # of each row
        return before, replace(step, logits_indices=last_tokens)


def verification_batch(
    num_new: Sequence[int],
    num_computed: Sequence[int],
    page_table: Sequence[Sequence[int]],
    shape: PagesShape,
) -> Batch:
    starts = list(accumulate(num_new, initial=0))
    ids = [(7 * i + 3 * num_computed[0]) % MIN_VOCAB for i in range(starts[-1])]
    rows, indices = range(len(num_new)), range(len(ids))
    return make_batch(
        ids,
        starts,
        num_computed,
        rows,
        indices,
        page_table=page_table,
        page_size=shape.page_size,
        num_windows=shape.num_windows,
    )
