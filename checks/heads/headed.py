"""A repository with what its files of weights say of themselves, whichever form they have."""

from checks.heads.gguf import by_heads
from checks.heads.safetensors import with_headers
from checks.source.hub import Hub
from checks.source.repository import Repository


def headed(source: Repository, hub: Hub) -> Repository:
    """The same with what its files of weights hold, and of a GGUF file what it says of itself.

    What cannot be read is told of. Raises Refused for a GGUF file, without whose head nothing is known.
    """
    return (by_heads if source.gguf else with_headers)(source, hub)
