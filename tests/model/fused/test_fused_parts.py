"""What is read of a model in small: activations, single numbers, tables of positions, the lists of a step."""

import ctypes

import pytest
import torch
from torch import nn
from transformers.activations import ACT2FN

from inference.model.batch import Batch
from inference.model.fused.activation import activation_of
from inference.model.fused.lists import listed
from inference.model.fused.rotary import Rotary, Tables, turn, turns
from inference.model.fused.scales import factor, uncapped
from inference.model.unfit import Unfit
from inference.native.structs import Activation
from tests.families import CONTEXT, tiny

KNOWN = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_new": Activation.GELU_TANH,
    "gelu": Activation.GELU,
}


def mlp(function: str) -> nn.Module:
    made = nn.Module()
    made.act_fn = ACT2FN[function]
    return made


@pytest.mark.parametrize("name", KNOWN)
def test_an_activation_is_known_by_what_it_computes(name: str) -> None:
    assert activation_of(mlp(name)) is KNOWN[name]


@pytest.mark.parametrize("name", ("relu", "quick_gelu", "mish"))
def test_another_activation_is_refused(name: str) -> None:
    with pytest.raises(Unfit, match="is no activation that is known here"):
        activation_of(mlp(name))


def test_a_factor_is_found_and_what_rounding_leaves_of_one_is_one() -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 40)
    assert factor("these", x, 2.5 * x) == pytest.approx(2.5)
    assert factor("these", x, x.bfloat16(), exact=True) == 1
    assert factor("these", x, uncapped(30 * torch.tanh(x / 30), 30)) == 1


def test_what_is_not_multiplied_with_a_number_is_refused() -> None:
    x = torch.linspace(1, 2, 40)
    with pytest.raises(Unfit, match="these are not multiplied with a number"):
        factor("these", x, x * x)
    with pytest.raises(Unfit, match="these are multiplied with 2, and there is a bias"):
        factor("these", x, 2 * x, exact=True)


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
def test_tables_are_what_the_model_itself_turns_by(rope: dict[str, object]) -> None:
    decoder = tiny("llama", rope_parameters=rope).get_decoder()
    cos, sin = decoder.rotary_emb(torch.empty(1), torch.arange(CONTEXT)[None])
    tables = Rotary(decoder, CONTEXT, torch.float32).tables((cos[:, :4], sin[:, :4]))
    half = cos.shape[-1] // 2
    assert torch.equal(tables.cos, cos[0, :, :half]) and torch.equal(tables.sin, sin[0, :, half:])


def test_positions_from_elsewhere_are_refused() -> None:
    decoder = tiny("llama").get_decoder()
    cos, sin = decoder.rotary_emb(torch.empty(1), torch.arange(4)[None])
    with pytest.raises(Unfit, match="not its rotary module's"):
        Rotary(decoder, CONTEXT, torch.float32).tables((cos, sin * 0.9))


def test_whether_keys_are_turned_is_seen() -> None:
    torch.manual_seed(1)
    keys, angles = torch.randn(4, 2, 8), torch.outer(torch.arange(9.0), torch.tensor([1.0, 0.3, 0.1]))
    tables = Tables(angles.cos(), angles.sin())
    turned = turn(keys, Tables(tables.cos[:4], tables.sin[:4]))
    assert turns(keys, turned, tables) and not turns(keys, keys, tables)
    assert torch.equal(turned[..., 6:], keys[..., 6:]), "what is wider than the tables stays"
    with pytest.raises(Unfit, match="what it does with keys"):
        turns(keys, turned.roll(1, -1), tables)


def test_a_step_points_at_its_lists() -> None:
    batch = Batch((7, 8, 9), (0, 1, 3), (17, 4), (0, 1), (0, 2), tables=((5, 2), (3,)))
    lists = listed(batch, 16)
    assert lists.positions == [17, 4, 5] and lists.slots == [2 * 16 + 1, 3 * 16 + 4, 3 * 16 + 5]
    assert lists.lengths == [18, 6] and lists.tables == [0, 2] and lists.pages == [5, 2, 3]
    step, held = lists.step()
    assert (step.tokens, step.rows, step.wanted) == (3, 2, 2)
    for name, values in lists._asdict().items():
        there = (ctypes.c_int64 * len(values)).from_address(getattr(step, name))
        assert list(there) == values
    assert len(held) == sum(map(len, lists))
