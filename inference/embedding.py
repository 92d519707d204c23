"""The events that answer a request for embeddings: the vectors of its inputs."""

from dataclasses import dataclass

from inference.types import Finished


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vector of one input, scaled to length 1. norm: its length before; num_tokens: of the input."""

    vector: tuple[float, ...]
    norm: float
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(Finished):
    """The vector of the input `index`. An embedding stream has one for each input, in any order."""

    embedding: Embedding
