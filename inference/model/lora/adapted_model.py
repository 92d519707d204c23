"""The model's own forward pass with one adapter for all tokens, outside of any runner.

Deltas that only native code has are unpacked for it. Knows loaded adapters; not why the model is called.
"""

from typing import Any

from inference.model.forward_pass.forward_context import ForwardContext, set_forward_context
from inference.model.forward_pass.step_adapters import uniform_adapters
from inference.model.fused.runner import FusedRunner
from inference.model.lora.modules import AdaptedModules
from inference.model.lora.native import unpack_deltas
from inference.model.lora.runner import adapter_runner_of
from inference.model.lora.weights import AdapterWeights

TOKEN_INPUTS = ("decoder_input_ids", "input_ids")


class AdaptedModel:
    """A transformers model, or its encoder, in which every call has the adapter `weights`.

    Attributes are the model's. The adapter's modules change during a call only.
    """

    def __init__(self, model: Any, weights: AdapterWeights, modules: AdaptedModules) -> None:
        self._model, self._weights, self._modules = model, weights, modules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, **inputs: Any) -> Any:
        num_tokens = next(inputs[name].numel() for name in TOKEN_INPUTS if name in inputs)
        adapters = uniform_adapters(self._weights.number, num_tokens, num_tokens)
        context = ForwardContext(None, adapters=adapters)
        with self._modules.installed([self._weights]), set_forward_context(context):
            return self._model(**inputs)

    def get_encoder(self) -> "AdaptedModel":
        return AdaptedModel(self._model.get_encoder(), self._weights, self._modules)


def with_adapter(model: Any, number: int) -> Any:
    """The model with the loaded adapter `number`; the model itself for 0. The adapter must stay loaded."""
    if not number:
        return model
    runner = adapter_runner_of(model)
    weights = runner.adapters[number]
    if weights.native is not None:
        assert isinstance(runner.runner, FusedRunner), "no other runner has native adapters"
        weights = AdapterWeights(number, unpack_deltas(runner.runner, weights.native), weights.has_effect)
    modules = AdaptedModules(model)
    modules.add(weights)
    return AdaptedModel(model, weights, modules)
