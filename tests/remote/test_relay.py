"""How the bytes of a response are read: the server's event loop is never held up by one upstream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from inference.remote.relay import SLICE_BYTES, slices


class ArrivedContent:
    """The content of a response that has arrived at once."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.data


def test_other_tasks_run_while_a_large_chunk_is_read() -> None:
    data = bytes(range(256)) * (SLICE_BYTES // 64)

    async def read() -> tuple[bytes, list[int]]:
        turns: list[int] = []
        content: Any = ArrivedContent(data)
        received = b""

        async def take_turns() -> None:
            while True:
                turns.append(len(received))
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        async for data_slice in slices(content):
            received += data_slice
        other.cancel()
        return received, turns

    received, turns = asyncio.run(read())
    assert received == data
    assert turns[:3] == [SLICE_BYTES, 2 * SLICE_BYTES, 3 * SLICE_BYTES]
