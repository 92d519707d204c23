"""What kernels are told of the rows, against lists made by hand."""

import torch

from inference.model.packed.kernels.index import Index, index_of, name_on
from inference.model.packed.line import Line, Span

CPU = torch.device("cpu")
SPANS = [Span(0, 3, 20, [7, 2]), Span(3, 4, 33, [5, 1, 9, 4, 8]), Span(4, 5, 1, [3])]


def line(spans: list[Span]) -> Line:
    nothing = torch.zeros(0)
    return Line(nothing, nothing, nothing, None, spans, size=16)


def test_an_index_says_where_each_row_stands() -> None:
    index = index_of(line(SPANS), CPU)
    assert index.starts.tolist() == [0, 3, 4, 5]
    assert index.lengths.tolist() == [20, 33, 1]
    assert index.sums.tolist() == [0, 20, 53, 54]
    assert [index.tables[row, : len(span.pages)].tolist() for row, span in enumerate(SPANS)] == [
        [7, 2],
        [5, 1, 9, 4, 8],
        [3],
    ]
    assert (index.widest, index.longest) == (3, 33)
    assert {part.dtype for part in (index.starts, index.lengths, index.tables)} == {torch.int32}


def test_all_layers_of_a_step_share_an_index() -> None:
    step = line(SPANS)
    assert index_of(step, CPU) is index_of(step, CPU)
    assert index_of(line(SPANS), CPU) is not index_of(step, CPU)


def test_tensors_begin_at_addresses_that_kernels_are_compiled_for() -> None:
    for rows in range(1, 6):
        index = index_of(line(SPANS[:1] * rows), CPU)
        for part in (index.tables, index.starts, index.sums, index.lengths):
            assert part.storage_offset() % 4 == 0


def test_an_index_filled_again_keeps_its_tensors() -> None:
    index = Index(2, 6, CPU, widest=1, longest=96)
    tables = index.tables
    index.fill([Span(0, 1, 20, [7, 2]), Span(1, 2, 33, [5, 1, 9])])
    index.fill([Span(0, 1, 33, [7, 2, 6]), Span(1, 2, 2, [4])])
    assert index.tables is tables
    assert tables[0, :3].tolist() == [7, 2, 6] and tables[1, 0].item() == 4
    assert index.starts.tolist() == [0, 1, 2] and index.lengths.tolist() == [33, 2]


def test_a_line_takes_the_index_that_was_put_there() -> None:
    step, kept = line(SPANS[1:2]), Index(1, 8, CPU, widest=1, longest=128)
    step.derived[name_on(CPU)] = kept
    assert index_of(step, CPU) is kept
