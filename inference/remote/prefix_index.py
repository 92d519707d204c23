"""Which prompts a server has seen lately, and so how much of a new one its prefix cache is expected to hold.

A prompt is a chain of hashes of blocks: equal hashes mean equal text up to the end of the block.
"""

from collections import OrderedDict
from collections.abc import Sequence

from inference.content import content_text
from inference.types import GenerationRequest, Message

BLOCK_BYTES = 256
BYTES_PER_TOKEN = 4
MAX_BLOCKS = 8192  # half a million tokens


def prompt_bytes(request: GenerationRequest) -> bytes:
    """The tools and the prompt as they follow each other in a rendered prompt, roughly."""
    if isinstance(request.prompt, str):
        return request.prompt.encode()
    if request.prompt and isinstance(request.prompt[0], Message):
        tools = [f"{tool.name}\n{tool.description}\n{tool.parameters}" for tool in request.tools]
        messages = [
            f"{message.role}\n{content_text(message.content)}"
            for message in request.prompt
            if isinstance(message, Message)
        ]
        return "\n".join([*tools, *messages]).encode()
    return " ".join(map(str, request.prompt)).encode()


def block_hashes(prompt: bytes) -> tuple[int, ...]:
    """The hash of each whole block, together with all blocks before it."""
    hashes, chain = [], 0
    for start in range(0, len(prompt) - BLOCK_BYTES + 1, BLOCK_BYTES):
        chain = hash((chain, prompt[start : start + BLOCK_BYTES]))
        hashes.append(chain)
    return tuple(hashes)


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
