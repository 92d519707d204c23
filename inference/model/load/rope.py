"""Rotary position embeddings: the scaling that the user sets, and frequencies that stay fixed while serving.

Scaling changes a config before its model is built; freezing changes a model's rotary modules, so that a row's
result does not depend on the other rows of its batch or on their length.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.errors import BadRequest
from inference.model.load.device_dtype import config_length

RETAINED_KEYS = ("rope_theta", "partial_rotary_factor")
UNSCALED_LAYERS = "sliding_attention"  # a longer context does not change what these layers see
FROZEN = "frozen"  # a rope_type that transformers never recomputes


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """A RoPE scaling method.

    kind    linear, dynamic or yarn; empty: no scaling
    factor  scaled length / original length
    """

    kind: str = ""
    factor: float = 1.0

    def apply(self, config: Any) -> None:
        """Replace the config's own scaling. Raises BadRequest for a model without rotary positions.

        max_position_embeddings becomes the length the model was trained with: dynamic scaling begins there,
        and scale_length computes the scaled length from it.
        """
        if not self.kind:
            return
        text = config.get_text_config()
        ropes = getattr(text, "rope_parameters", None)
        if not ropes:
            raise BadRequest("ROPE_SCALING", "needs a model with rotary positions", self.kind)
        layers = {key: rope for key, rope in ropes.items() if isinstance(rope, dict)}
        trained_lengths = (rope.get("original_max_position_embeddings") for rope in (*layers.values(), ropes))
        trained = next(filter(None, trained_lengths), None) or config_length(config)
        text.max_position_embeddings = trained
        if layers:
            scaled = {
                key: self._scaled_rope(rope, trained)
                for key, rope in layers.items()
                if key != UNSCALED_LAYERS
            }
            text.rope_parameters = ropes | scaled
        else:
            text.rope_parameters = self._scaled_rope(ropes, trained)

    def scale_length(self, tokens: int) -> int:
        """The length in tokens after scaling, from the length without."""
        return int(tokens * self.factor) if self.kind else tokens

    def _scaled_rope(self, rope: dict[str, Any], trained: int | None) -> dict[str, Any]:
        retained = {key: rope[key] for key in RETAINED_KEYS if rope.get(key) is not None}
        base = {"original_max_position_embeddings": trained} if self.kind == "yarn" else {}
        return retained | base | {"rope_type": self.kind, "factor": self.factor}


NO_SCALING = RopeScaling()


def rope_scaling(kind: str, factor: float) -> RopeScaling:
    """The scaling of ROPE_SCALING and ROPE_FACTOR. A factor alone means linear, as in TGI."""
    if kind == "none":
        return NO_SCALING if factor == 1 else RopeScaling("linear", factor)
    return RopeScaling(kind, factor)


def freeze_frequencies(model: PreTrainedModel, context: int) -> list[str]:
    """Freeze the frequencies at those of a sequence of `context` tokens; returns the frozen rope types.

    Up to the length the model was first trained with, these are its original frequencies. Beyond that, short
    sequences use the frequencies of long ones: a smaller context is then closer to how the model was trained.
    """
    frozen = []
    for module in model.modules():
        kinds: Any = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):  # layer type → rope type
            for layer in filter(lambda layer: changes_with_length(kinds[layer]), list(kinds)):
                extend_frequencies(module, model, context, layer)
                frozen.append(kinds[layer])
                kinds[layer] = FROZEN
        elif changes_with_length(kinds):
            extend_frequencies(module, model, context)
            frozen.append(kinds)
            module.rope_type = FROZEN
    return frozen


def changes_with_length(kind: Any) -> bool:
    return isinstance(kind, str) and ("dynamic" in kind or kind == "longrope")


@torch.no_grad()
def extend_frequencies(module: Any, model: PreTrainedModel, context: int, *layer: str) -> None:
    """Call the module with the last position of the context: it updates its frequencies for that length."""
    sample = torch.empty(1, device=model.device, dtype=model.dtype)
    module(sample, torch.tensor([[context - 1]], device=model.device), *layer)
