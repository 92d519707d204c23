"""Batches for a runner with a window group, made from batches for one without."""

from dataclasses import replace

from inference.model.batch import Batch, CacheOp, Clear, GroupTable, slots_of
from inference.model.kv_cost import WindowGroup


def with_window_table(batch: Batch, group: WindowGroup, page_size: int) -> Batch:
    """The same batch, with the pages of the only window group: others than in page_table, in another order.

    Pages behind the window are the null page.
    """
    page_table, slot_mapping = [], list[int]()
    for pages, start, end in zip(batch.page_table, batch.num_computed_tokens, batch.seq_lens, strict=True):
        first = max(0, start - group.window + 1) // page_size
        row_pages = [group.null_page] * first + [window_page(page, group) for page in pages[first:]]
        page_table.append(row_pages)
        slot_mapping += slots_of(row_pages, page_size, start, end)
    window_ops: list[CacheOp] = [
        Clear(window_page(op.row, group), 1) for op in batch.cache_ops if isinstance(op, Clear)
    ]
    return replace(
        batch,
        cache_ops=[*batch.cache_ops, *window_ops],
        window_tables=[GroupTable(page_table, slot_mapping)],
    )


def window_page(page: int, group: WindowGroup) -> int:
    """The page of a window group that stands for a page of page_table: no two are the same."""
    return group.num_pages - 1 - page
