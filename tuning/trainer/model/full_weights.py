"""All weights of the base model in training. Knows the model; not the losses, nor the optimizer.

A weight in bfloat16 has a float32 master copy, which the optimizer changes: steps are smaller than bfloat16
resolves (Micikevicius et al. 2018, "Mixed Precision Training", https://arxiv.org/abs/1710.03740).
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers.utils import CONFIG_NAME

from inference.errors import BadRequest
from tuning.model_folder import write_model_folder
from tuning.trainer.durable_files import sync, write_json, write_tensors
from tuning.trainer.model.base_model import BaseModel

STATE_FILE = "weights.safetensors"  # the float32 weights, by their names in the model


class FullWeights:
    """The weights of `base`, which are not frozen from here on."""

    def __init__(self, base: BaseModel) -> None:
        self._base = base
        self._causal = base.causal.requires_grad_(True)
        self._weights: dict[str, nn.Parameter] = dict(base.causal.named_parameters())
        self._masters = {name: make_master(weight) for name, weight in self._weights.items()}

    def activate(self) -> None:
        """There is no other run beside this one."""

    def parameters(self) -> Mapping[str, nn.Parameter]:
        return self._masters

    @torch.no_grad()
    def apply_step(self) -> None:
        for name, weight in self._weights.items():
            if weight is not self._masters[name]:
                weight.copy_(self._masters[name])

    def save(self, folder: Path) -> None:
        """Write a folder that transformers and this server load, in the dtype of the base model."""
        source = Path(self._causal.name_or_path)
        write_model_folder(self._causal, self._base.tokenizer, source, folder)
        # As the base has it: the settings that changed the loaded config change this one at its load, too.
        config = json.loads((source / CONFIG_NAME).read_text("utf-8")) | {
            "dtype": dtype_name(self._causal.dtype)
        }
        write_json(folder / CONFIG_NAME, config)
        for path in folder.iterdir():
            sync(path)

    def save_state(self, folder: Path) -> None:
        write_tensors(folder / STATE_FILE, {name: each.detach() for name, each in self._masters.items()})

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        state = load_file(folder / STATE_FILE)
        if shapes_of(state) != shapes_of(self._masters):
            raise BadRequest("state", "has other weights than the model")
        for name, master in self._masters.items():
            master.copy_(state[name])
        self.apply_step()

    def remove(self) -> None:
        self._causal.requires_grad_(False)


def make_master(weight: nn.Parameter) -> nn.Parameter:
    """A float32 copy that gets the weight's gradients; a float32 weight is its own."""
    if weight.dtype == torch.float32:
        return weight
    master = nn.Parameter(weight.detach().float())
    weight.register_post_accumulate_grad_hook(partial(move_gradient, master))
    return master


def move_gradient(master: nn.Parameter, weight: Tensor) -> None:
    """Add the weight's gradient to its master's, in float32, and free it."""
    gradient = weight.grad
    assert gradient is not None
    master.grad = gradient.float() if master.grad is None else master.grad.add_(gradient)
    weight.grad = None


def dtype_name(dtype: torch.dtype) -> str:
    """As config.json has it."""
    return str(dtype).removeprefix("torch.")


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
