"""Parts of the spec's extraction: activations, multipliers, rope tables; and the arrays of a step."""

import ctypes

import pytest
import torch
from torch import nn
from transformers.activations import ACT2FN

from inference.model.batch import UnsupportedModel, make_batch
from inference.model.fused.probe import (
    CosSin,
    RopeTables,
    activation_of,
    is_rotated,
    multiplier,
    rotate,
    uncapped,
)
from inference.model.fused.runner import native_step
from inference.native.structs import Activation
from tests.tiny_models.families import CONTEXT, tiny

KNOWN = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_new": Activation.GELU_TANH,
    "gelu": Activation.GELU,
}


def mlp(function: str) -> nn.Module:
    module = nn.Module()
    module.act_fn = ACT2FN[function]
    return module


@pytest.mark.parametrize("name", KNOWN)
def test_an_activation_is_recognized_by_its_values(name: str) -> None:
    assert activation_of(mlp(name)) is KNOWN[name]


@pytest.mark.parametrize("name", ("relu", "quick_gelu", "mish"))
def test_another_activation_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="is not a supported activation"):
        activation_of(mlp(name))


def test_an_mlp_without_an_activation_is_refused_with_what_is_missing() -> None:
    with pytest.raises(UnsupportedModel, match="a Module has no act_fn, activation_fn or act"):
        activation_of(nn.Module())


def test_a_multiplier_is_found_and_a_rounding_error_around_one_is_one() -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 40)
    assert multiplier("these", x, 2.5 * x) == pytest.approx(2.5)
    assert multiplier("these", x, x.bfloat16(), exact=True) == 1
    assert multiplier("these", x, uncapped(30 * torch.tanh(x / 30), 30)) == 1


def test_an_operation_that_is_no_multiplication_is_refused() -> None:
    x = torch.linspace(1, 2, 40)
    with pytest.raises(UnsupportedModel, match="these are not scaled by one constant"):
        multiplier("these", x, x * x)
    with pytest.raises(UnsupportedModel, match="these are scaled by 2, which is not supported with a bias"):
        multiplier("these", x, 2 * x, exact=True)


@pytest.mark.parametrize(
    "rope",
    (
        {"rope_type": "default", "rope_theta": 1e4},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32},
        {
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    ids=lambda rope: rope["rope_type"],
)
def test_tables_equal_the_models_rotary_embedding(rope: dict[str, object]) -> None:
    decoder = tiny("llama", rope_parameters=rope).get_decoder()
    cos, sin = decoder.rotary_emb(torch.empty(1), torch.arange(CONTEXT)[None])
    tables = RopeTables(decoder, CONTEXT, torch.float32).tables_for((cos[:, :4], sin[:, :4]))
    half = cos.shape[-1] // 2
    assert torch.equal(tables.cos, cos[0, :, :half]) and torch.equal(tables.sin, sin[0, :, half:])


def test_tables_that_differ_from_the_rotary_module_are_refused() -> None:
    decoder = tiny("llama").get_decoder()
    cos, sin = decoder.rotary_emb(torch.empty(1), torch.arange(4)[None])
    with pytest.raises(UnsupportedModel, match="are not those of a rotary module"):
        RopeTables(decoder, CONTEXT, torch.float32).tables_for((cos, sin * 0.9))


def test_rotation_of_keys_is_detected() -> None:
    torch.manual_seed(1)
    keys, angles = torch.randn(4, 2, 8), torch.outer(torch.arange(9.0), torch.tensor([1.0, 0.3, 0.1]))
    tables = CosSin(angles.cos(), angles.sin())
    rotated_keys = rotate(keys, CosSin(tables.cos[:4], tables.sin[:4]))
    assert is_rotated(keys, rotated_keys, tables) and not is_rotated(keys, keys, tables)
    assert torch.equal(rotated_keys[..., 6:], keys[..., 6:]), "dimensions beyond the tables stay unrotated"
    with pytest.raises(UnsupportedModel, match="its keys are changed before caching"):
        is_rotated(keys, rotated_keys.roll(1, -1), tables)


def test_a_step_points_at_its_arrays() -> None:
    batch = make_batch((7, 8, 9), (0, 1, 3), (17, 4), (0, 1), (0, 2), page_table=((5, 2), (3,)), page_size=16)
    step, buffer = native_step(batch, batch.logits_indices)
    assert (step.tokens, step.rows, step.num_logits) == (3, 2, 2)
    expected = {
        "ids": [7, 8, 9],
        "positions": [17, 4, 5],
        "slot_mapping": [2 * 16 + 1, 3 * 16 + 4, 3 * 16 + 5],
        "query_start_loc": [0, 1, 3],
        "seq_lens": [18, 6],
        "page_table": [0, 2],
        "pages": [5, 2, 3],
        "output_indices": [0, 2],
    }
    for name, values in expected.items():
        there = (ctypes.c_int64 * len(values)).from_address(getattr(step, name))
        assert list(there) == values
    assert len(buffer) == sum(map(len, expected.values()))
