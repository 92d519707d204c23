"""The body of forward_backward and forward, however it was encoded. Plain values, not yet checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.tinker.tensors import Array, Tensor


@dataclass(frozen=True, slots=True)
class OtherChunk:
    """A chunk of a prompt that is not text. kind: image, dmel, …"""

    kind: str


Chunk = Array | OtherChunk  # token ids (tokens,)


@dataclass(frozen=True, slots=True)
class DatumBody:
    """A sequence and its loss.

    model_input     the chunks of the sequence
    loss_fn_inputs  a tensor by each input's name
    """

    model_input: Sequence[Chunk]
    loss_fn_inputs: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class PassBody:
    """A forward or forward_backward pass over some data. forward_only: without gradients."""

    data: Sequence[DatumBody]
    loss_fn: str
    loss_fn_config: Mapping[str, float | str]
    forward_only: bool
