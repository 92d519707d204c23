"""Records a model's forward pass over a few tokens: attention options, and inputs and outputs of modules.

Knows hooks and the paged runner; extract.py interprets the records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import PreTrainedModel

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kv_pool import KVPool, LayerKV
from inference.model.paged.runner import NUM_PROBE_TOKENS, PagedRunner
from inference.model.paged.sdpa import sdpa_kernel


class AttentionCall(NamedTuple):
    """Options of a layer's attention.

    num_heads  query heads
    scale      factor of the scores
    window     sliding window in tokens, including the query's own; 0: none
    softcap    soft cap of the scores; 0: none
    sinks      whether it has attention sinks
    """

    num_heads: int
    scale: float
    window: int
    softcap: float
    sinks: bool


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """The arguments and the result of a module's last call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


@dataclass(frozen=True, slots=True)
class ForwardTrace:
    """A forward pass over T tokens.

    attention_calls  attention module → its options, in the order of the first calls
    keys, values     attention module → what it stored in the KV pool, (T, G, D)
    calls            watched module → its last call
    """

    attention_calls: dict[nn.Module, AttentionCall]
    keys: dict[nn.Module, Tensor]
    values: dict[nn.Module, Tensor]
    calls: dict[nn.Module, ModuleCall]


def trace_forward(model: PreTrainedModel, watched: Iterable[nn.Module]) -> ForwardTrace:
    """Trace the paged runner computing tokens 0, 1, … at positions 0, 1, ….

    Raises UnsupportedModel if the paged runner does not support the model.
    """
    attention_calls: dict[int, AttentionCall] = {}
    calls: dict[nn.Module, ModuleCall] = {}

    def kernel(query: Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams) -> Tensor:
        attention_calls[id(kv)] = AttentionCall(
            num_heads=query.shape[1],
            scale=params.scale,
            window=params.window or 0,
            softcap=params.softcap or 0.0,
            sinks=params.sinks is not None,
        )
        return sdpa_kernel(query, kv, metadata, params)

    def record_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        calls[module] = ModuleCall(args, kwargs, output)

    pool = KVPool(1)
    runner = PagedRunner(model, pool, max_sequences=1, context=pool.capacity, kernel=kernel)
    hooks = [module.register_forward_hook(record_call, with_kwargs=True) for module in watched]
    try:
        runner.probe()
    finally:
        for hook in hooks:
            hook.remove()
    layer_kv = pool.layers
    return ForwardTrace(
        {module: attention_calls[id(pages)] for module, pages in layer_kv.items()},
        {module: pages.keys[0, :NUM_PROBE_TOKENS] for module, pages in layer_kv.items()},
        {module: pages.values[0, :NUM_PROBE_TOKENS] for module, pages in layer_kv.items()},
        calls,
    )
