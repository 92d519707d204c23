"""The sum of scaled adapters changes each module by the sum of their scaled changes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.errors import BadRequest
from inference.lora.config import read_config
from inference.lora.files import TensorFile, read_shapes
from inference.lora.keys import TensorRole, group_keys
from inference.lora.sum import Summand, write_sum
from tests.lora.peft_adapters import save_adapter


def changes(folder: Path) -> dict[str, Tensor]:
    """What the adapter in `folder` adds to the weight of each module."""
    config, file = read_config(folder, 256), TensorFile(folder)
    return {
        module: file.read(keys[TensorRole.LORA_B])
        @ file.read(keys[TensorRole.LORA_A])
        * config.scale_of(module)
        for module, keys in group_keys(read_shapes(folder)).items()
    }


def test_a_sum_has_the_scaled_changes_of_all(tmp_path: Path) -> None:
    first = save_adapter(tmp_path / "a", "llama", 1, target_modules=["q_proj", "v_proj"])
    second = save_adapter(
        tmp_path / "b", "llama", 2, target_modules=["v_proj", "o_proj"], r=8, use_rslora=True,
        rank_pattern={"o_proj": 2}, alpha_pattern={"v_proj": 3},
    )  # fmt: skip
    (tmp_path / "sum").mkdir()
    write_sum([Summand(first, 0.5), Summand(second, -2.0)], tmp_path / "sum")
    ours, a, b = changes(tmp_path / "sum"), changes(first), changes(second)
    assert ours.keys() == a.keys() | b.keys()
    for module, change in ours.items():
        expected = torch.zeros_like(change) + 0.5 * a.get(module, 0) - 2 * b.get(module, 0)  # type: ignore[operator]
        assert torch.allclose(change, expected, atol=1e-5), module


def test_changes_that_are_not_linear_have_no_sum(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "a", "llama", 1, use_dora=True)
    (tmp_path / "sum").mkdir()
    with pytest.raises(BadRequest, match=r"lora_magnitude_vector, and only pairs of linear layers"):
        write_sum([Summand(folder, 0.5)], tmp_path / "sum")
