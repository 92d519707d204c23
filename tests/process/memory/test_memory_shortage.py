"""A refused allocation is recognized in all its forms, and too little memory before the libraries abort."""

import errno

import pytest
import torch

from inference.process.memory.cgroups import CgroupLimit
from inference.process.memory.memory_shortage import has_memory_for_libraries, is_memory_shortage


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("by chance"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        ),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_a_refusal_of_memory_is_recognized(error: Exception) -> None:
    assert is_memory_shortage(error)


def test_an_error_that_a_refusal_has_caused_is_recognized() -> None:
    try:
        try:
            raise MemoryError
        except MemoryError:
            raise ImportError("cannot import name 'a' from 'b'") from None
    except ImportError as error:
        assert is_memory_shortage(error)


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "no such file"), RuntimeError("shapes differ")])
def test_another_error_is_none(error: Exception) -> None:
    assert not is_memory_shortage(error)


@pytest.mark.parametrize(
    ("free_address_space", "limit", "is_enough"),
    [
        (None, None, True),
        (999_999_999, None, False),
        (1_000_000_000, None, True),
        (None, CgroupLimit(450_000_000, 60_000_000, 20_000_000), True),
        (None, CgroupLimit(450_000_000, 60_000_000, 0), False),
    ],
)
def test_the_libraries_need_address_space_and_ram(
    free_address_space: int | None, limit: CgroupLimit | None, is_enough: bool
) -> None:
    assert has_memory_for_libraries(free_address_space, [limit] if limit else []) == is_enough
