"""The page table of a step against lists written by hand."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan
from inference.model.paged.kernels.page_table import PageTable, cache_key, page_table_of

CPU = torch.device("cpu")
SPANS = [QuerySpan(0, 3, 20, [7, 2]), QuerySpan(3, 4, 33, [5, 1, 9, 4, 8]), QuerySpan(4, 5, 1, [3])]


def metadata_of(spans: list[QuerySpan]) -> AttnMetadata:
    nothing = torch.zeros(0)
    return AttnMetadata(nothing, nothing, nothing, None, spans, page_size=16)


def test_a_page_table_describes_each_row() -> None:
    page_table = page_table_of(metadata_of(SPANS), CPU)
    assert page_table.query_start_loc.tolist() == [0, 3, 4, 5]
    assert page_table.seq_lens.tolist() == [20, 33, 1]
    assert page_table.cu_seq_lens.tolist() == [0, 20, 53, 54]
    assert [page_table.pages[row, : len(span.pages)].tolist() for row, span in enumerate(SPANS)] == [
        [7, 2],
        [5, 1, 9, 4, 8],
        [3],
    ]
    assert (page_table.max_query_len, page_table.max_seq_len) == (3, 33)
    assert {
        tensor.dtype for tensor in (page_table.query_start_loc, page_table.seq_lens, page_table.pages)
    } == {torch.int32}


def test_all_layers_of_a_step_share_a_page_table() -> None:
    step = metadata_of(SPANS)
    assert page_table_of(step, CPU) is page_table_of(step, CPU)
    assert page_table_of(metadata_of(SPANS), CPU) is not page_table_of(step, CPU)


def test_tensors_are_aligned_as_kernels_require() -> None:
    for rows in range(1, 6):
        page_table = page_table_of(metadata_of(SPANS[:1] * rows), CPU)
        for tensor in (
            page_table.pages,
            page_table.query_start_loc,
            page_table.cu_seq_lens,
            page_table.seq_lens,
        ):
            assert tensor.storage_offset() % 4 == 0


def test_a_refilled_page_table_keeps_its_tensors() -> None:
    page_table = PageTable(2, 6, CPU, max_query_len=1, max_seq_len=96)
    tables = page_table.pages
    page_table.fill([QuerySpan(0, 1, 20, [7, 2]), QuerySpan(1, 2, 33, [5, 1, 9])])
    page_table.fill([QuerySpan(0, 1, 33, [7, 2, 6]), QuerySpan(1, 2, 2, [4])])
    assert page_table.pages is tables
    assert tables[0, :3].tolist() == [7, 2, 6] and tables[1, 0].item() == 4
    assert page_table.query_start_loc.tolist() == [0, 1, 2] and page_table.seq_lens.tolist() == [33, 2]


class CopySizes(TorchDispatchMode):
    """Records the number of elements of each copy."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.copy_.default:
            self.sizes.append(args[1].numel())
        return func(*args, **(kwargs or {}))


def test_a_refill_copies_the_columns_in_use_and_leaves_earlier_pages_in_the_others() -> None:
    page_table = PageTable(2, 5000, CPU, max_query_len=1, max_seq_len=80_000)
    page_table.fill([QuerySpan(0, 1, 160, list(range(10))), QuerySpan(1, 2, 16, [90])])
    with CopySizes() as copies:
        page_table.fill([QuerySpan(0, 1, 33, [7, 2, 6]), QuerySpan(1, 2, 60, [4, 8, 3, 1])])
    assert copies.sizes and max(copies.sizes) < 50
    assert page_table.pages[0, :10].tolist() == [7, 2, 6, 3, 4, 5, 6, 7, 8, 9]
    assert page_table.pages[1, :6].tolist() == [4, 8, 3, 1, 0, 0]
    assert not page_table.pages[:, 10:].any()


def test_metadata_uses_the_page_table_in_its_cache() -> None:
    step, page_table = metadata_of(SPANS[1:2]), PageTable(1, 8, CPU, max_query_len=1, max_seq_len=128)
    step.per_step_cache[cache_key(CPU)] = page_table
    assert page_table_of(step, CPU) is page_table
