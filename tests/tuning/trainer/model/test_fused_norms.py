"""Norms that torch computes by one kernel give a model's own results; others stay as they are."""

import copy

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from tuning.trainer.model.fused_norms import FusedRMSNorm, fuse_norms

WIDTH = 48


def norm_of(kind: type[nn.Module], dtype: torch.dtype = torch.float32) -> nn.Module:
    norm = kind(WIDTH, eps=1e-5).to(dtype)
    nn.init.uniform_(norm.weight, 0.2, 1.5)
    return norm.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_outputs_and_gradients_stay_the_same(dtype: torch.dtype) -> None:
    norm = norm_of(LlamaRMSNorm, dtype)
    fused = copy.deepcopy(norm)
    assert fuse_norms(nn.Sequential(fused)) == 1 and isinstance(fused, FusedRMSNorm)
    x = torch.randn(3, 5, WIDTH, dtype=dtype, requires_grad=True)
    upstream = torch.randn(3, 5, WIDTH, dtype=dtype)
    for one, other in zip(
        (norm(x), *torch.autograd.grad(norm(x), x, upstream)),
        (fused(x), *torch.autograd.grad(fused(x), x, upstream)),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=4 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("kind", [GemmaRMSNorm, nn.LayerNorm, nn.Linear], ids=lambda kind: kind.__name__)
def test_modules_that_compute_something_else_stay(kind: type[nn.Module]) -> None:
    module = nn.Linear(WIDTH, WIDTH) if kind is nn.Linear else norm_of(kind)
    assert fuse_norms(nn.Sequential(module)) == 0 and type(module) is kind
