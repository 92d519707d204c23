"""Tables of rows and columns."""

import psutil
import torch

from inference.model.batch import Copy, Shape, Swap
from inference.model.blank import blank
from inference.model.slots.memory import Memory


def filled(whole: bool = False) -> Memory:
    """3 rows × 4 columns (or 3 whole rows of 4): row r holds 10 r + column."""
    memory = Memory()
    memory.do(Shape(3, 4))
    table = memory.table(whole)
    data = table.like((4, 1) if whole else (1,), torch.zeros(1))
    data.copy_((10 * torch.arange(3)[:, None] + torch.arange(4))[..., None])
    return memory


def rows(memory: Memory) -> list[list[int]]:
    data = memory.tables[0].data
    assert data is not None
    return data[..., 0].int().tolist()


def test_a_copy_writes_its_columns_and_no_others() -> None:
    memory = filled()
    memory.do(Copy(0, 2, 3))
    assert rows(memory) == [[0, 1, 2, 3], [10, 11, 12, 13], [0, 1, 2, 23]]


def test_a_swap_trades_its_columns() -> None:
    memory = filled()
    memory.do(Swap(0, 1, 2))
    assert rows(memory)[:2] == [[10, 11, 2, 3], [0, 1, 12, 13]]


def test_a_state_moves_whole() -> None:
    memory = filled(whole=True)
    memory.do(Swap(0, 1, 2))
    memory.do(Copy(0, 2, 1))
    assert rows(memory) == [[10, 11, 12, 13], [0, 1, 2, 3], [10, 11, 12, 13]]


def test_a_shape_keeps_what_fits_and_the_rest_is_zero() -> None:
    memory = filled()
    memory.do(Shape(2, 5))
    assert rows(memory) == [[0, 1, 2, 3, 0], [10, 11, 12, 13, 0]]
    memory.do(Shape(3, 2))
    assert rows(memory) == [[0, 1], [10, 11], [0, 0]]


def test_a_shape_leaves_a_states_width() -> None:
    memory = filled(whole=True)
    memory.do(Shape(1, 9))
    assert rows(memory) == [[0, 1, 2, 3]]


def test_columns_and_rows_are_priced_apart() -> None:
    memory = Memory()
    memory.do(Shape(3, 4))
    memory.table().like((2, 8), torch.zeros(1, dtype=torch.bfloat16))
    memory.table(whole=True).like((5,), torch.zeros(1))
    assert (memory.bytes_per_column(), memory.bytes_per_row()) == (32, 20)


def test_columns_never_written_take_no_memory() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    tensor = blank((1 << 20, 512), torch.zeros(1))  # 2 GiB
    tensor[0, 0] = 1
    assert process.memory_info().rss - before < 1 << 26
    assert tensor[-1].sum() == 0
