"""A fake runner with paged memory: its logits follow from the tokens that it reads through the page table.

Like keys and values, the entry of a token depends on all tokens before it: a page is usable only after its
own prefix. In each window group, a token reads the entries of its window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch

from inference.model.batch import Batch, CacheOp, Clear, GroupTable, PendingTokens, RunnerCapabilities
from inference.model.kv_cost import WindowGroup
from tests.engine.conftest import NAN, VOCAB, IllegalBatch
from tests.walks.echo_runner import logits_of_row

Ids = tuple[int, ...]


@dataclass
class PagedEchoRunner:
    """Stores for each token of a page all ids up to it; raises IllegalBatch for a Batch that no runner could
    compute.

      on_forward  called with each Batch before it writes and after; may raise
      early       steps launched before the tokens of the step before were known
    """

    max_sequences: int
    context: int
    kv_capacity: int
    page_size: int = 4
    vocab: int = VOCAB
    chunked_prefill: bool = True
    paged: bool = True
    overlap: bool = False
    encoder_decoder: bool = False
    start_ids: tuple[int, ...] = ()
    window_groups: tuple[WindowGroup, ...] = ()
    on_forward: Callable[[Batch, bool], None] = lambda batch, moved: None
    pages: list[list[Ids]] = field(init=False)
    window_pages: list[list[list[Ids]]] = field(init=False)
    early: int = 0

    def __post_init__(self) -> None:
        self.pages = self.blank_pages(self.kv_capacity // self.page_size)
        self.window_pages = [self.blank_pages(group.num_pages) for group in self.window_groups]

    def blank_pages(self, num_pages: int) -> list[list[Ids]]:
        return [[()] * self.page_size for _ in range(num_pages)]

    @property
    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities(self.chunked_prefill, self.paged, self.overlap, self.encoder_decoder)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.on_forward(batch, False)
        if batch.pending_tokens is not None:
            assert self.overlap
            self.early += 1
            batch = replace(batch, token_ids=known_ids(batch.token_ids, batch.pending_tokens))
        try:
            self.carry_out(batch.cache_ops)
            self._check_batch(batch)
            ids_by_row = [self._write_row(batch, index) for index in range(len(batch.rows))]
            for table, group, pages in zip(
                batch.window_tables, self.window_groups, self.window_pages, strict=True
            ):
                self._write_window(batch, table, pages, ids_by_row)
                self._read_window(batch, table, group, pages, ids_by_row)
        except (AssertionError, IndexError) as error:
            raise IllegalBatch(str(error)) from error
        self.on_forward(batch, True)
        logits = [
            row
            for index, ids in enumerate(ids_by_row)
            for row in logits_of_row(batch, index, ids, has_nan=self._has_nan(batch, index))
        ]
        return torch.tensor(logits).reshape(len(batch.logits_indices), VOCAB)

    def carry_out(self, cache_ops: Sequence[CacheOp]) -> None:
        for cache_op in cache_ops:
            assert isinstance(cache_op, Clear), "pages are never moved"
            pages = self.window_pages[cache_op.group - 1] if cache_op.group else self.pages
            pages[cache_op.row] = [()] * self.page_size

    def ids_in_pages(self, table: Sequence[int], count: int) -> Ids:
        """The first `count` tokens in these pages."""
        read = [self.pages[table[at // self.page_size]][at % self.page_size] for at in range(count)]
        ids = read[-1] if read else ()
        assert read == [ids[: at + 1] for at in range(count)], "these pages were not written for each other"
        return ids

    def _check_batch(self, batch: Batch) -> None:
        num_new = [end - start for start, end in pairwise(batch.query_start_loc)]
        assert batch.query_start_loc[0] == 0 and batch.query_start_loc[-1] == len(batch.token_ids)
        assert (
            len(num_new) == len(batch.rows) == len(batch.num_computed_tokens) == len(batch.page_table)
            and min(num_new) > 0
        )
        tables = [table for table, n in zip(batch.page_table, num_new, strict=True) for _ in range(n)]
        assert batch.slot_mapping == [
            table[at // self.page_size] * self.page_size + at % self.page_size
            for table, at in zip(tables, batch.positions, strict=True)
        ]
        assert batch.positions == [
            at for length, n in zip(batch.seq_lens, num_new, strict=True) for at in range(length - n, length)
        ]
        assert len(set(batch.rows)) == len(batch.rows) <= self.max_sequences, "a row twice"
        assert all(0 <= row < self.max_sequences for row in batch.rows)
        assert all(a < b for a, b in pairwise(batch.rows)), "rows must ascend"
        assert all(a < b for a, b in pairwise(batch.logits_indices)), "logits_indices must ascend"
        written = [
            page
            for table, cached, n in zip(batch.page_table, batch.num_computed_tokens, num_new, strict=True)
            for page in table[cached // self.page_size : -(-(cached + n) // self.page_size)]
        ]
        assert len(set(written)) == len(written), "two rows write to one page"
        read = {
            page
            for table, n in zip(batch.page_table, batch.num_computed_tokens, strict=True)
            for page in table[: n // self.page_size]
        }
        assert not read & set(written), "a row writes to a page that another reads"

    def _has_nan(self, batch: Batch, index: int) -> bool:
        """Whether any page of a row contains NaN, even beside the tokens that are read: 0 × nan is nan."""
        read = [self.pages[page] for page in batch.page_table[index]]
        for table, group, pages in zip(
            batch.window_tables, self.window_groups, self.window_pages, strict=True
        ):
            read += [pages[page] for page in table.page_table[index] if page != group.null_page]
        return any(NAN in ids for page in read for ids in page)

    def _write_window(
        self, batch: Batch, table: GroupTable, pages: list[list[Ids]], ids_by_row: Sequence[Ids]
    ) -> None:
        """Store the entries of the new tokens in a window group's pages."""
        assert len(table.slot_mapping) == len(set(table.slot_mapping)) == len(batch.token_ids)
        assert len(table.page_table) == len(batch.rows)
        for index, (start, end) in enumerate(pairwise(batch.query_start_loc)):
            for at in range(start, end):
                position, slot = batch.positions[at], table.slot_mapping[at]
                assert slot // self.page_size == table.page_table[index][position // self.page_size]
                pages[slot // self.page_size][slot % self.page_size] = ids_by_row[index][: position + 1]

    def _read_window(
        self,
        batch: Batch,
        table: GroupTable,
        group: WindowGroup,
        pages: list[list[Ids]],
        ids_by_row: Sequence[Ids],
    ) -> None:
        """Check that each new token finds its own window, after all rows have written."""
        lengths = zip(batch.num_computed_tokens, batch.seq_lens, ids_by_row, table.page_table, strict=True)
        for start, end, ids, row_pages in lengths:
            for position in range(max(0, start - group.window + 1), end):
                entry = pages[row_pages[position // self.page_size]][position % self.page_size]
                assert entry == ids[: position + 1], "a window contains other tokens"

    def _write_row(self, batch: Batch, index: int) -> Ids:
        start, end, cached = (
            batch.query_start_loc[index],
            batch.query_start_loc[index + 1],
            batch.num_computed_tokens[index],
        )
        table, ids = (
            batch.page_table[index],
            self.ids_in_pages(batch.page_table[index], batch.num_computed_tokens[index]),
        )
        for at, id in enumerate(batch.token_ids[start:end], cached):
            ids = (*ids, id)
            self.pages[table[at // self.page_size]][at % self.page_size] = ids
        return ids


def known_ids(token_ids: Sequence[int], pending: PendingTokens) -> list[int]:
    """The token ids of a batch, with the pending ones filled in."""
    ids = list(token_ids)
    for position, source in zip(pending.token_indices, pending.sample_indices, strict=True):
        assert ids[position] == 0, "a known id is replaced"
        ids[position] = max(0, int(pending.sampled_ids[source]))
    return ids
