"""Adapters with random weights, and a model with such an adapter in its weights."""

import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.lora.delta import LoraDelta
from inference.model.lora.weights import AdapterWeights
from tests.tiny_models.families import tiny

RANK, STD = 4, 0.3


def random_adapter(model: PreTrainedModel, number: int) -> AdapterWeights:
    """Pairs on all linear layers of the decoder."""
    generator = torch.Generator().manual_seed(number)
    deltas = {
        name: LoraDelta(
            (torch.randn(RANK, module.in_features, generator=generator) * STD).to(model.device),
            (torch.randn(module.out_features, RANK, generator=generator) * STD).to(model.device),
        )
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not model.get_output_embeddings()
    }
    return AdapterWeights(number, deltas, has_effect=True)


def merged(device: str, adapter: AdapterWeights | None) -> PreTrainedModel:
    """The model with the adapter's pairs added to its weights."""
    model = tiny("llama").to(device)
    for name, pair in adapter.deltas.items() if adapter else ():
        weight = model.get_submodule(name).weight
        weight.data.add_((pair.a.T @ pair.b_t).T)
    return model
