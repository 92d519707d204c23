"""Which prompts a server has seen lately, so how much of a new one its prefix cache is expected to hold."""

from collections import OrderedDict
from collections.abc import Sequence

from inference.prefix_blocks import BLOCK_BYTES, BYTES_PER_TOKEN

MAX_BLOCKS = 8192  # half a million tokens


class PrefixIndex:
    """The blocks of the prompts that one server has got; the least recently used ones are forgotten."""

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._max_blocks = max_blocks

    def num_cached(self, hashes: Sequence[int]) -> int:
        """Leading blocks that the server is expected to hold."""
        return next((i for i, block in enumerate(hashes) if block not in self._blocks), len(hashes))

    def add(self, hashes: Sequence[int]) -> None:
        """The end of a prompt is forgotten before its beginning, which more prompts share."""
        for block in reversed(hashes):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def correct(self, hashes: Sequence[int], num_expected: int, cached_tokens: int) -> None:
        """Forget the blocks that the server turned out not to hold. num_expected: before the request."""
        if cached_tokens * BYTES_PER_TOKEN < num_expected * BLOCK_BYTES // 2:
            num_cached = cached_tokens * BYTES_PER_TOKEN // BLOCK_BYTES
            for block in hashes[num_cached:num_expected]:
                self._blocks.pop(block, None)
