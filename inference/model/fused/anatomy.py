"""The parts of a model of transformers that are those of a Llama, by their names; refused where others show.

Knows names; what the parts compute is seen elsewhere.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.fused.norms import norm_of
from inference.model.unfit import Unfit

DTYPES = (torch.float32, torch.bfloat16)
QUERY, KEY, VALUE, JOINED, OUTPUT = "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj"
GATE, UP, GATE_AND_UP, DOWN = "gate_proj", "up_proj", "gate_up_proj", "down_proj"


class Anatomy(NamedTuple):
    decoder: nn.Module
    layers: list[nn.Module]
    attentions: list[nn.Module]
    embedding: nn.Module
    output: nn.Module
    norm: nn.Module


def anatomy(model: PreTrainedModel) -> Anatomy:
    """Raises Unfit where a part is missing, or computes elsewhere or otherwise than it says."""
    if model.device.type != "cpu":
        raise Unfit(f"is on {model.device}")
    return parts_of(model)


def parts_of(model: PreTrainedModel) -> Anatomy:
    """The same wherever the model is, were it on the meta device. Raises Unfit."""
    if model.dtype not in DTYPES:
        raise Unfit(f"is in {str(model.dtype).removeprefix('torch.')}")
    decoder = asked(model, "get_decoder")
    layers = list(child(decoder, "layers").children())
    found = Anatomy(
        decoder=decoder,
        layers=layers,
        attentions=[child(layer, "self_attn") for layer in layers],
        embedding=asked(model, "get_input_embeddings"),
        output=asked(model, "get_output_embeddings"),
        norm=child(decoder, "norm"),
    )
    for layer in layers:
        check_layer(layer)
    for name, module in decoder.named_modules():
        if module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__:
            raise Unfit(f"{name} has a hook")
    if model.device.type != "meta":  # only values tell what a norm computes
        norm_of(found.norm, int(model.config.get_text_config().hidden_size), model.dtype)
    return found


def check_layer(layer: nn.Module) -> None:
    """Raise Unfit where a layer lacks what is multiplied with."""
    attention, mlp = child(layer, "self_attn"), child(layer, "mlp")
    for name in (JOINED,) if hasattr(attention, JOINED) else (QUERY, KEY, VALUE):
        child(attention, name)
    for name in (GATE_AND_UP,) if hasattr(mlp, GATE_AND_UP) else (GATE, UP):
        child(mlp, name)
    child(attention, OUTPUT)
    child(mlp, DOWN)


def refuse_unknown(decoder: nn.Module, known: Iterable[nn.Module]) -> None:
    """Raise Unfit where there are weights in a module that is not known."""
    unread = {
        name: module
        for name, module in decoder.named_modules()
        if own_weights(module) and module not in set(known)
    }
    if unread:
        name, module = next(iter(unread.items()))
        raise Unfit(f"has {name}, a {type(module).__name__}, which is not known here")


def holds_weights(module: nn.Module) -> bool:
    return any(own_weights(part) for part in module.modules())


def own_weights(module: nn.Module) -> bool:
    """Whether there are weights in the module itself."""
    return any(weight is not None for weight in module._parameters.values())


def key_source(attention: nn.Module) -> nn.Module:
    """The layer that makes keys, be it with queries and values."""
    return child(attention, JOINED if hasattr(attention, JOINED) else KEY)


def child(module: nn.Module, name: str) -> nn.Module:
    found = getattr(module, name, None)
    if not isinstance(found, nn.Module):
        raise Unfit(f"a {type(module).__name__} has no {name}")
    return found


def asked(model: PreTrainedModel, name: str) -> nn.Module:
    """The part that the model itself names. Raises Unfit where it names none."""
    found = getattr(model, name)()
    if not isinstance(found, nn.Module) or found is model:
        raise Unfit(f"{type(model).__name__}.{name} gives no part")
    return found
