"""ContiguousMemory: tables of rows and columns."""

import psutil
import torch

from inference.model.batch import Copy, Resize, Swap
from inference.model.contiguous.kv_memory import ContiguousMemory
from inference.model.lazy_zeros import lazy_zeros


def filled_memory(whole_rows: bool = False) -> ContiguousMemory:
    """3 rows × 4 columns (or 3 whole rows of 4): row r holds 10 r + column."""
    memory = ContiguousMemory()
    memory.apply(Resize(3, 4))
    table = memory.add_tensor(whole_rows)
    data = table.get_or_allocate((4, 1) if whole_rows else (1,), torch.zeros(1))
    data.copy_((10 * torch.arange(3)[:, None] + torch.arange(4))[..., None])
    return memory


def rows(memory: ContiguousMemory) -> list[list[int]]:
    data = memory.tensors[0].data
    assert data is not None
    return data[..., 0].int().tolist()


def test_a_copy_writes_only_its_columns() -> None:
    memory = filled_memory()
    memory.apply(Copy(0, 2, 3))
    assert rows(memory) == [[0, 1, 2, 3], [10, 11, 12, 13], [0, 1, 2, 23]]


def test_a_swap_exchanges_its_columns() -> None:
    memory = filled_memory()
    memory.apply(Swap(0, 1, 2))
    assert rows(memory)[:2] == [[10, 11, 2, 3], [0, 1, 12, 13]]


def test_a_per_row_state_moves_whole() -> None:
    memory = filled_memory(whole_rows=True)
    memory.apply(Swap(0, 1, 2))
    memory.apply(Copy(0, 2, 1))
    assert rows(memory) == [[10, 11, 12, 13], [0, 1, 2, 3], [10, 11, 12, 13]]


def test_a_resize_keeps_what_fits_and_zeroes_the_rest() -> None:
    memory = filled_memory()
    memory.apply(Resize(2, 5))
    assert rows(memory) == [[0, 1, 2, 3, 0], [10, 11, 12, 13, 0]]
    memory.apply(Resize(3, 2))
    assert rows(memory) == [[0, 1], [10, 11], [0, 0]]


def test_a_resize_leaves_the_width_of_a_state() -> None:
    memory = filled_memory(whole_rows=True)
    memory.apply(Resize(1, 9))
    assert rows(memory) == [[0, 1, 2, 3]]


def test_bytes_are_counted_per_column_and_per_row() -> None:
    memory = ContiguousMemory()
    memory.apply(Resize(3, 4))
    memory.add_tensor().get_or_allocate((2, 8), torch.zeros(1, dtype=torch.bfloat16))
    memory.add_tensor(per_row=True).get_or_allocate((5,), torch.zeros(1))
    assert (memory.bytes_per_column(), memory.bytes_per_row()) == (32, 20)


def test_columns_never_written_take_no_memory() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    tensor = lazy_zeros((1 << 20, 512), torch.zeros(1))  # 2 GiB
    tensor[0, 0] = 1
    assert process.memory_info().rss - before < 1 << 26
    assert tensor[-1].sum() == 0
