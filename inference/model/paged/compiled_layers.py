"""Compiles a model's repeated layers with torch.compile: a layer runs some 10 kernels instead of 40.

All layers of a class share the compiled code, for any number of tokens, so compiling takes seconds even for a
deep model. To the compiler, attention is an opaque operator. Knows how layers repeat; nothing of what one
computes: select_runner.py verifies the logits.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.attention import effective_kwargs
from inference.model.batch import UnsupportedModel
from inference.model.paged import attention
from inference.model.paged.attention import PagedAttention
from inference.model.paged.kv_pool import KVPool
from inference.model.paged.runner import PagedRunner

NAME = "hearth_paged_compiled"  # as attention.NAME, in compiled layers
INDEX = "hearth_attention_index"  # the attribute of an attention module with its place in `_modules`
OPERATOR = "hearth::paged_attention"

# Every attention module in a compiled layer; those of models that are gone take no memory.
_modules: list[weakref.ref[nn.Module]] = []


class CompiledLayers:
    """The compiled layers of one model. It computes as before outside of `installed`.

    fuses_rotary: one kernel of the pool rotates queries and keys and stores keys and values.
    Raises UnsupportedModel if no layers with paged attention repeat, or as PagedRunner does.
    """

    def __init__(self, model: PreTrainedModel, fuses_rotary: bool = False) -> None:
        # Here, because it takes a second to import torch's compiler, which only GPUs need.
        from inference.model.paged.fuse_rotary import FuseRotary
        from inference.model.paged.merge_equal_nodes import MergeEqualNodes

        # A scale or an epsilon is the same in all layers: it becomes a constant, not an input.
        torch._dynamo.config.specialize_float = True
        options: dict[str, Any] = {"joint_custom_pre_pass": MergeEqualNodes()}
        if fuses_rotary:
            options["post_grad_custom_pre_pass"] = FuseRotary(torch.ops.hearth.paged_attention.default)
        self.calls: dict[nn.Module, Callable[..., Any]] = {
            layer: torch.compile(layer._call_impl, dynamic=True, fullgraph=True, options=options)
            for layer in repeated_layers(model, attention_modules(model))
        }
        if not self.calls:
            raise UnsupportedModel("has no repeated layers")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Compute the layers by their compiled code within the context."""
        for layer, call in self.calls.items():
            layer._compiled_call_impl = call
        try:
            yield
        finally:
            for layer in self.calls:
                layer._compiled_call_impl = None


class CompiledAttention(PagedAttention):
    """A PagedAttention that also installs compiled layers; a probe runs the layers as they are."""

    def __init__(self, model: PreTrainedModel, layers: CompiledLayers) -> None:
        super().__init__(model)
        self.layers = layers

    @contextmanager
    def installed(self, name: str = attention.NAME) -> Iterator[None]:
        if name != attention.NAME:
            with super().installed(name):
                yield
        else:
            with super().installed(NAME), self.layers.installed():
                yield


def attention_modules(model: PreTrainedModel) -> list[nn.Module]:
    """The modules that compute attention, numbered for the operator."""
    pool = KVPool(1)
    PagedRunner(model, pool, max_sequences=1, context=1).probe()
    modules = list(pool.layers)
    for module in modules:
        # A tensor is an input of the compiled code; a plain number would be a constant of each layer's own.
        setattr(module, INDEX, torch.tensor(len(_modules)))
        _modules.append(weakref.ref(module))
    return modules


def repeated_layers(model: PreTrainedModel, inner: list[nn.Module]) -> Iterator[nn.Module]:
    """The elements of each list of several modules in which each contains one of the modules `inner`."""
    inner_set = set(inner)
    for module in model.modules():
        is_list = isinstance(module, nn.ModuleList) and len(module) > 1
        if is_list and all(inner_set.intersection(layer.modules()) for layer in module.children()):
            yield from module.children()


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """As attention.attend, in a form that can be traced."""
    if attention_mask is not None or (unsupported := effective_kwargs(kwargs)):
        raise UnsupportedModel(f"paged attention does not support {unsupported or 'a mask'}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    index = getattr(module, INDEX)
    output = torch.ops.hearth.paged_attention(
        query, key, value, index, scale, sliding_window, softcap, s_aux, None, None
    )
    return output, None


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)

_library = torch.library.Library("hearth", "FRAGMENT")
_library.define(
    "paged_attention(Tensor query, Tensor key, Tensor value, Tensor index, float scale, int? window, "
    "float? softcap, Tensor? sinks, Tensor? cos, Tensor? sin) -> Tensor"
)


def compute_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
    cos: Tensor | None,
    sin: Tensor | None,
) -> Tensor:
    """The operator: attention.attend of module `index`. It writes pages that only attention reads.

    cos, sin (1, 1, T, D): query and key get their rotary embedding here; None: they have it.
    """
    module = _modules[int(index)]()
    assert module is not None, "compiled code runs as a part of its model"
    if cos is None or sin is None:
        return attention.attend(module, query, key, value, None, scale, window, softcap, sinks)[0]
    params = attention.AttentionParams(scale, window or None, softcap, sinks)
    return attention.rotate_and_attend(module, query, key, value, cos, sin, params)


def attention_shape(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, scale: float, *options: Any
) -> Tensor:
    """The operator's output (1, T, H, E) for the compiler, without values."""
    return query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])


_library.impl("paged_attention", compute_attention, "CompositeExplicitAutograd")
torch.library.register_fake(OPERATOR, attention_shape)
