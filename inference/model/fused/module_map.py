"""Finds the modules of a Llama-like transformers model by their names, and refuses models with other modules.

Knows names; probe.py and trace.py find out what the modules compute.
"""

from collections.abc import Set
from typing import NamedTuple

from torch import nn
from transformers import PreTrainedModel

from inference.model.batch import UnsupportedModel
from inference.model.forward_pass import pooling
from inference.model.fused.probe import norm_of
from inference.native.packed_matrix import NATIVE_DTYPES

QUERY, KEY, VALUE, QUERY_KEY_VALUE, OUTPUT = "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj"
GATE, UP, GATE_AND_UP, DOWN = "gate_proj", "up_proj", "gate_up_proj", "down_proj"


class ModuleMap(NamedTuple):
    decoder: nn.Module
    layers: list[nn.Module]
    attentions: list[nn.Module]  # self_attn of each layer
    embedding: nn.Module
    output: nn.Module  # the layer that computes the logits
    norm: nn.Module  # the last one, before the output layer


def map_modules_on_cpu(model: PreTrainedModel) -> ModuleMap:
    """map_modules for a model on the CPU; raises UnsupportedModel if it is on another device."""
    if model.device.type != "cpu":
        raise UnsupportedModel(f"the model is on {model.device}")
    return map_modules(model)


def map_modules(model: PreTrainedModel) -> ModuleMap:
    """Find the modules of a model on any device, including meta.

    Raises UnsupportedModel for an unsupported dtype, a missing module, a hooked module, or an unsupported
    last norm. The norm is not checked on the meta device.
    """
    if model.dtype not in NATIVE_DTYPES:
        raise UnsupportedModel(f"the model is in {str(model.dtype).removeprefix('torch.')}")
    decoder = get_named_module(model, "get_decoder")
    layers = list(child(decoder, "layers").children())
    module_map = ModuleMap(
        decoder=decoder,
        layers=layers,
        attentions=[child(layer, "self_attn") for layer in layers],
        embedding=get_named_module(model, "get_input_embeddings"),
        output=get_named_module(model, "get_output_embeddings"),
        norm=child(decoder, "norm"),
    )
    for layer in layers:
        check_layer(layer)
    for name, module in decoder.named_modules():
        hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if any(hook is not pooling.sum_spans for hook in hooks) or "forward" in module.__dict__:
            raise UnsupportedModel(f"{name} has a hook")
    if model.device.type != "meta":  # identifying a norm requires values
        norm_of(module_map.norm, int(model.config.get_text_config().hidden_size), model.dtype)
    return module_map


def check_layer(layer: nn.Module) -> None:
    """Raise UnsupportedModel if a layer lacks one of its projections."""
    attention, mlp = child(layer, "self_attn"), child(layer, "mlp")
    for name in (QUERY_KEY_VALUE,) if hasattr(attention, QUERY_KEY_VALUE) else (QUERY, KEY, VALUE):
        child(attention, name)
    for name in (GATE_AND_UP,) if hasattr(mlp, GATE_AND_UP) else (GATE, UP):
        child(mlp, name)
    child(attention, OUTPUT)
    child(mlp, DOWN)


def refuse_unknown(decoder: nn.Module, extracted: Set[nn.Module]) -> None:
    """Raise UnsupportedModel if a module outside `extracted` has weights of its own."""
    unread = {
        name: module
        for name, module in decoder.named_modules()
        if has_own_weights(module) and module not in extracted
    }
    if unread:
        name, module = next(iter(unread.items()))
        raise UnsupportedModel(f"the model has {name}, a {type(module).__name__}, which is not supported")


def has_own_weights(module: nn.Module) -> bool:
    """Whether the module itself, without its submodules, has weights."""
    return any(weight is not None for weight in module._parameters.values())


def key_projection(attention: nn.Module) -> nn.Module:
    """The projection that computes keys; a merged one computes queries and values too."""
    return child(attention, QUERY_KEY_VALUE if hasattr(attention, QUERY_KEY_VALUE) else KEY)


def child(module: nn.Module, name: str) -> nn.Module:
    submodule = getattr(module, name, None)
    if not isinstance(submodule, nn.Module):
        raise UnsupportedModel(f"a {type(module).__name__} has no {name}")
    return submodule


def get_named_module(model: PreTrainedModel, name: str) -> nn.Module:
    """The module that method `name` of the model returns. Raises UnsupportedModel if it is none."""
    module = getattr(model, name)()
    if not isinstance(module, nn.Module) or module is model:
        raise UnsupportedModel(f"{type(model).__name__}.{name} returns no submodule")
    return module
