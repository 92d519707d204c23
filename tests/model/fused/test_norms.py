"""The weight and epsilon of a norm are inferred from its outputs for given vectors."""

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo.modeling_olmo import OlmoLayerNorm

from inference.model.batch import UnsupportedModel
from inference.model.fused.probe import norm_of

WIDTH = 24
DTYPES = (torch.float32, torch.bfloat16)


def filled(norm: nn.Module, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in norm.parameters():
            weight.normal_(0.5, 0.3)
    return norm.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_weight_of_a_norm_is_its_multiplier(dtype: torch.dtype) -> None:
    norm = filled(LlamaRMSNorm(WIDTH, eps=1e-5), dtype)
    norm_spec = norm_of(norm, WIDTH, dtype)
    assert torch.equal(norm_spec.weight, norm.weight.float()) and norm_spec.epsilon == 1e-5


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemmas_norm_multiplies_with_one_plus_its_weight(dtype: torch.dtype) -> None:
    norm = filled(GemmaRMSNorm(WIDTH, eps=1e-6), dtype)
    assert torch.equal(norm_of(norm, WIDTH, dtype).weight, 1 + norm.weight.float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_norm_without_a_weight_multiplies_with_one(dtype: torch.dtype) -> None:
    norm = nn.RMSNorm(WIDTH, eps=1e-6, elementwise_affine=False)
    assert torch.equal(norm_of(norm, WIDTH, dtype).weight, torch.ones(WIDTH))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", (nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, bias=False), OlmoLayerNorm(WIDTH)))
def test_a_norm_that_subtracts_the_mean_is_refused(norm: nn.Module, dtype: torch.dtype) -> None:
    with pytest.raises(UnsupportedModel):
        norm_of(filled(norm, dtype), WIDTH, dtype)


def test_an_epsilon_that_is_not_used_is_refused() -> None:
    norm = filled(LlamaRMSNorm(WIDTH, eps=1e-5), torch.float32)

    class Other(nn.Module):
        weight, eps = norm.weight, 1e-6

        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            return norm(hidden_states)

    with pytest.raises(UnsupportedModel, match="Other of width 24 is not a supported norm"):
        norm_of(Other(), WIDTH, torch.float32)


def test_a_norm_over_all_heads_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"LlamaRMSNorm has weights of shape \(24,\), not \(8,\)"):
        norm_of(LlamaRMSNorm(WIDTH), 8, torch.float32)
