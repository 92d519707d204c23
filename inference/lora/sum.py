"""Writes the sum of scaled adapters as an adapter of its own, for llama.cpp's lists of adapters with scales.

The pairs of a module are joined: (s₁ B₁ | s₂ B₂) (A₁ ; A₂) = s₁ B₁ A₁ + s₂ B₂ A₂. Other changes of a module,
such as DoRA's, are not linear in a scale, and refused.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from inference.errors import BadRequest
from inference.lora.config import read_config, refusal
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from inference.lora.files import TensorFile, check_files, read_shapes
from inference.lora.keys import PAIR, PREFIX, TensorRole, group_keys

ANY_RANK = 1 << 30  # the parts are loaded already; the sum's rank is checked when it is loaded


@dataclass(frozen=True, slots=True)
class Summand:
    """An adapter's folder, and the factor of its change."""

    folder: Path
    scale: float


def write_sum(summands: Sequence[Summand], target: Path) -> None:
    """Write the adapter into the empty folder `target`. Raises BadRequest for what cannot be scaled."""
    pairs: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for summand in summands:
        for module, a, b in scaled_pairs(summand):
            pairs.setdefault(module, []).append((a, b))
    tensors, ranks = {}, {}
    for module, matrices in pairs.items():
        a = torch.cat([a for a, _ in matrices])
        b = torch.cat([b for _, b in matrices], dim=1)
        tensors[f"{PREFIX}{module}{TensorRole.LORA_A.value}"] = a
        tensors[f"{PREFIX}{module}{TensorRole.LORA_B.value}"] = b.contiguous()
        ranks[re.escape(module)] = len(a)
    save_file(tensors, target / ADAPTER_WEIGHTS)
    rank = max(ranks.values())
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
    }
    (target / ADAPTER_CONFIG).write_text(json.dumps(config), "utf-8")


def scaled_pairs(summand: Summand) -> list[tuple[str, Tensor, Tensor]]:
    """Module, A and scaled B of each pair."""
    folder = summand.folder
    check_files(folder)
    config, file = read_config(folder, ANY_RANK), TensorFile(folder)
    if config.target_parameters:
        raise not_linear(f"target_parameters {', '.join(config.target_parameters)}")
    scaled = []
    for module, keys in group_keys(read_shapes(folder)).items():
        if keys.keys() != PAIR:
            raise not_linear(next(key for role, key in keys.items() if role not in PAIR))
        scale = config.scale_of(module) * summand.scale
        a, b = file.read(keys[TensorRole.LORA_A]), file.read(keys[TensorRole.LORA_B])
        scaled.append((module, a, b * scale))
    return scaled


def not_linear(feature: str) -> BadRequest:
    return refusal(
        f"has {feature}, and only pairs of linear layers can be scaled: name it with scale 1, alone"
    )
