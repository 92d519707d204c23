"""Reads a model of transformers as a Llama-like one: all that native code must know of it.

What cannot be told is refused: weights that nobody read, hooks, layers that are not packed or not alike.
What is read wrongly all the same, the proof at load sees. Knows no model's class.
"""

from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.fused.activation import activation_of
from inference.model.fused.anatomy import Anatomy, anatomy, child, key_source, refuse_unknown
from inference.model.fused.layer import Common, block
from inference.model.fused.matrices import rows, shaped, weight_of
from inference.model.fused.reading import Reading, Scales, Shape
from inference.model.fused.rotary import Rotary
from inference.model.fused.scales import factor, uncapped
from inference.model.fused.witness import Seen, see
from inference.model.unfit import Unfit

RESIDUAL = "residual_multiplier"
LOGIT_CAP = "final_logit_softcapping"


@torch.inference_mode()
def read(model: PreTrainedModel, context: int) -> Reading:
    """The model, with positions for so many tokens. Raises Unfit."""
    parts = anatomy(model)
    weight_of(parts.output)  # before anything is computed
    watched = (model, parts.output, *parts.layers, *map(key_source, parts.attentions))
    seen = see(model, watched)
    common = Common(
        seen, Rotary(parts.decoder, context, model.dtype), model.dtype, shape_of(model, parts, seen)
    )
    blocks = tuple(block(layer, common) for layer in parts.layers)
    embedding, head = common.matrix(parts.embedding), common.matrix(parts.output)
    norm = common.norm(parts.norm, common.shape.hidden)
    refuse_unknown(parts.decoder, common.known)
    cap = float(getattr(model.config.get_text_config(), LOGIT_CAP, None) or 0)
    given = seen.calls[parts.layers[0]].first()
    logits = uncapped(seen.calls[model].made.logits, cap)
    told = next(iter(seen.told.values()))
    return Reading(
        blocks=blocks,
        embedding=shaped("the embedding", embedding, head.outputs, common.shape.hidden),
        head_matrix=shaped("the output layer", head, head.outputs, common.shape.hidden),
        # A factor of the logits is one of what they are made from, as the output layer adds nothing.
        last_norm=norm
        * factor("the logits", seen.calls[parts.output].made, logits, exact=head.bias is not None),
        keys=seen.keys[parts.attentions[0]],
        shape=common.shape,
        scales=Scales(
            scale=told.scale,
            score_cap=told.score_cap,
            embedding_scale=factor("the embedding", rows(embedding, given.shape[1]), given),
            residual_scale=only(RESIDUAL, (getattr(layer, RESIDUAL, 1.0) for layer in parts.layers)),
            logit_cap=cap,
        ),
        activation=only("activation", (activation_of(child(layer, "mlp")) for layer in parts.layers)),
        epsilon=only("epsilon", common.epsilons),
        held=tuple(common.held),
    )


def shape_of(model: PreTrainedModel, parts: Anatomy, seen: Seen) -> Shape:
    """What all layers share. Raises Unfit where they do not."""
    if list(seen.told) != parts.attentions:
        raise Unfit("attention is not once in each layer")
    told = only("way of attention", (told._replace(window=0) for told in seen.told.values()))
    if told.sinks:
        raise Unfit("attention has sinks")
    widths = (tuple(held.shape[1:]) for each in (seen.keys, seen.values) for held in each.values())
    groups, head = only("width of keys and values", widths)
    return Shape(int(model.config.get_text_config().hidden_size), told.heads, groups, head)


def only(name: str, values: Iterable[Any]) -> Any:
    """The value that all share. Raises Unfit where there are several."""
    found = set(values)
    if len(found) != 1:
        raise Unfit(f"its layers have not the same {name}")
    return found.pop()
