"""The description of a Llama-like model that native code computes from: numbers, matrices and tensors.

extract.py makes it from a model; runner.py turns it into the structs of step.h.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from inference.native.structs import Activation, Matrix


class HeadShape(NamedTuple):
    """Shape of hidden states and attention.

    hidden        width of the hidden states
    num_heads     query heads
    num_kv_heads  key/value heads
    head_dim      width of a head
    """

    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


class Multipliers(NamedTuple):
    """Constant factors and soft caps, named as in step.h. A cap of 0 means none.

    scale                factor of the attention scores
    attn_logit_softcap   soft cap of the attention scores
    embedding_scale      factor of the embeddings
    residual_scale       factor of what attention and MLP add to the hidden states
    final_logit_softcap  soft cap of the logits
    """

    scale: float
    attn_logit_softcap: float
    embedding_scale: float
    residual_scale: float
    final_logit_softcap: float


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A decoder layer.

    attention  the attention module; key of the layer's pages in KVPool.layers
    matrices   query, key, value, output, gate, up, down
    norms      float32 factors (width,) of each norm, by its field of Layer in step.h
    cos, sin   rotary tables (positions, rotary / 2), float32; None: keys and queries are not rotated
    window     sliding window in tokens, including the query's own; 0: none
    """

    attention: nn.Module
    matrices: Mapping[str, Matrix]
    norms: Mapping[str, Tensor]
    cos: Tensor | None
    sin: Tensor | None
    window: int


@dataclass(frozen=True, slots=True)
class LlamaSpec:
    """A model.

    embedding   (vocab, hidden)
    lm_head     the output layer, (vocab, hidden)
    final_norm  (hidden,), float32: factors of the final norm, times the multiplier of the logits
    keys        (T, G, D), keys of a few tokens: the KV pool takes their dtype, G and D
    epsilon     ε of all norms
    keep_alive  owners of the memory that the matrices point into
    """

    layers: tuple[LayerSpec, ...]
    embedding: Matrix
    lm_head: Matrix
    final_norm: Tensor
    keys: Tensor
    shape: HeadShape
    multipliers: Multipliers
    activation: Activation
    epsilon: float
    keep_alive: tuple[object, ...]

    @property
    def rotary(self) -> int:
        """Number of dimensions of a head that are rotated; 0 if no layer rotates."""
        return max((2 * block.cos.shape[1] for block in self.layers if block.cos is not None), default=0)
