"""Extracts a LlamaSpec from a transformers model: everything that the C library needs to compute it.

A model with weights that were not extracted, hooks, unpacked layers or unequal layers is refused. An error in
the extraction itself shows when select_runner.py compares logits. Knows no model classes.
"""

from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.batch import UnsupportedModel
from inference.model.fused.extract_layer import ExtractContext, extract_layer
from inference.model.fused.extract_matrices import check_shape, first_rows, packed_weight_of
from inference.model.fused.llama_model import HeadShape, LlamaSpec, Multipliers
from inference.model.fused.module_map import (
    ModuleMap,
    child,
    key_projection,
    map_modules_on_cpu,
    refuse_unknown,
)
from inference.model.fused.probe import RopeTables, activation_of, multiplier, uncapped
from inference.model.fused.trace import ForwardTrace, trace_forward

RESIDUAL = "residual_multiplier"
LOGIT_SOFTCAP = "final_logit_softcapping"


@torch.inference_mode()
def extract_spec(model: PreTrainedModel, context: int) -> LlamaSpec:
    """Extract the model, with rotary tables for `context` positions.

    Runs the model on a few tokens. The result points into the memory of the model's packed weights. Raises
    UnsupportedModel with the first property that native code does not support.
    """
    modules = map_modules_on_cpu(model)
    packed_weight_of(modules.output)  # refuse unpacked weights before the model runs
    watched = (model, modules.output, *modules.layers, *map(key_projection, modules.attentions))
    trace = trace_forward(model, watched)
    common = ExtractContext(
        trace,
        RopeTables(modules.decoder, context, model.dtype),
        model.dtype,
        head_shape_of(model, modules, trace),
    )
    blocks = tuple(extract_layer(layer, common) for layer in modules.layers)
    embedding, lm_head = common.matrix(modules.embedding), common.matrix(modules.output)
    norm = common.norm(modules.norm, common.shape.hidden)
    refuse_unknown(modules.decoder, common.extracted)
    softcap = float(getattr(model.config.get_text_config(), LOGIT_SOFTCAP, None) or 0)
    first_call = trace.calls[modules.layers[0]]
    hidden = (*first_call.args, *first_call.kwargs.values())[0]
    logits = uncapped(trace.calls[model].output.logits, softcap)
    # A factor of the logits moves to the output layer's input: the same, if the layer has no bias.
    logit_scale = multiplier(
        "the logits", trace.calls[modules.output].output, logits, exact=lm_head.bias is not None
    )
    attention = next(iter(trace.attention_calls.values()))
    return LlamaSpec(
        layers=blocks,
        embedding=check_shape("the embedding", embedding, lm_head.outputs, common.shape.hidden),
        lm_head=check_shape("the output layer", lm_head, lm_head.outputs, common.shape.hidden),
        final_norm=norm * logit_scale,
        keys=trace.keys[modules.attentions[0]],
        shape=common.shape,
        multipliers=Multipliers(
            scale=attention.scale,
            attn_logit_softcap=attention.softcap,
            embedding_scale=multiplier("the embeddings", first_rows(embedding, hidden.shape[1]), hidden),
            residual_scale=only_value(RESIDUAL, (getattr(layer, RESIDUAL, 1.0) for layer in modules.layers)),
            final_logit_softcap=softcap,
        ),
        activation=only_value("activation", (activation_of(child(layer, "mlp")) for layer in modules.layers)),
        epsilon=only_value("epsilon", common.epsilons),
        keep_alive=tuple(common.keep_alive),
    )


def head_shape_of(model: PreTrainedModel, modules: ModuleMap, trace: ForwardTrace) -> HeadShape:
    """The attention shape that all layers share. Raises UnsupportedModel if they differ."""
    if list(trace.attention_calls) != modules.attentions:
        raise UnsupportedModel("its attention calls do not match its layers")
    attention = only_value(
        "attention options", (attention._replace(window=0) for attention in trace.attention_calls.values())
    )
    if attention.sinks:
        raise UnsupportedModel("attention sinks are not supported")
    widths = (tuple(states.shape[1:]) for each in (trace.keys, trace.values) for states in each.values())
    num_kv_heads, head_dim = only_value("shape of keys and values", widths)
    return HeadShape(
        int(model.config.get_text_config().hidden_size), attention.num_heads, num_kv_heads, head_dim
    )


def only_value(name: str, values: Iterable[Any]) -> Any:
    """The value that all layers share. Raises UnsupportedModel if there are several."""
    distinct = set(values)
    if len(distinct) != 1:
        raise UnsupportedModel(f"its layers differ in {name}")
    return distinct.pop()
