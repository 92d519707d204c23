"""A prompt as a chain of hashes of blocks: equal hashes mean equal text up to the end of the block.

So servers can say which prompts they have computed without their text or its tokens.
"""

from hashlib import blake2b

from inference.content import content_text
from inference.types import GenerationRequest, Message

BLOCK_BYTES = 256
BYTES_PER_TOKEN = 4
HASH_BYTES = 7  # an integer of any JSON


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
    """The hash of each whole block, together with all blocks before it: the same in every process."""
    hashes, chain = [], 0
    for start in range(0, len(prompt) - BLOCK_BYTES + 1, BLOCK_BYTES):
        block = chain.to_bytes(HASH_BYTES) + prompt[start : start + BLOCK_BYTES]
        chain = int.from_bytes(blake2b(block, digest_size=HASH_BYTES).digest())
        hashes.append(chain)
    return tuple(hashes)
