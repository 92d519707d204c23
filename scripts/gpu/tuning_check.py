"""Compares losses and gradients of our trainer on a device with those on the CPU, on a small model."""

import traceback
from collections.abc import Generator, Mapping
from functools import partial
from random import Random

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from inference.model.quantization.quantize import move_unpacked, pack_on_device
from inference.model.quantization.replace import replace_weights
from inference.model.quantization.schemes import INT4, NONE
from scripts.gpu.figure import Figure
from tuning.trainer.datum import Datum
from tuning.trainer.model.base_model import split_model
from tuning.trainer.model.fused_norms import fuse_norms
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.trainer import Trainer

SIZES: Mapping[str, int] = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TOKENS = 160  # more than a kernel for few rows takes
RUN_ID = "checked"
# (dtype, scheme of the frozen weights) → largest relative errors of the loss and of all gradients.
TOLERANCES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("float32", NONE): (1e-5, 1e-3),
    ("float32", INT4): (1e-3, 2e-2),
    ("bfloat16", NONE): (1e-2, 0.1),
    ("bfloat16", INT4): (1e-2, 0.1),
}


def check_device(device: str) -> Generator[Figure, None, list[str]]:
    """The errors as figures; returns the names of those that are too large."""
    wrong = list[str]()
    for (dtype, scheme), tolerances in TOLERANCES.items():
        try:
            expected, computed = (compute(where, dtype, scheme) for where in ("cpu", device))
        except Exception as error:  # what follows is still measured
            traceback.print_exc()
            yield Figure(f"{dtype}, {scheme}", "failed", remark=f"{type(error).__name__}: {error}"[:200])
            wrong.append(f"{dtype}, {scheme}")
            continue
        for name, value, reference, tolerance in zip(
            ("loss", "gradients"), computed, expected, tolerances, strict=True
        ):
            figure = f"{dtype}, {scheme}, {name}"
            difference = float((value - reference).norm() / reference.norm())
            yield Figure(figure, difference, "relative error", f"at most {tolerance:g}")
            wrong += [] if difference <= tolerance else [figure]
    return wrong


def compute(device: str, dtype: str, scheme: str) -> tuple[Tensor, Tensor]:
    """The loss (1,), and the gradients of all trained weights, flattened; both on the CPU."""
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    model.requires_grad_(False)
    if scheme != NONE:
        replace_weights(model, scheme, partial(pack_on_device, device))
    move_unpacked(model, device)
    if device != "cpu":
        fuse_norms(model)
    trainer = Trainer(split_model(model, None, config.vocab_size, TOKENS), checkpointing=True)
    trainer.create_run(RUN_ID, LoraOptions())
    weights = trainer.parameters(RUN_ID)
    torch.manual_seed(1)
    for weight in weights:  # an adapter that changes something, the same on every device
        weight.data.copy_(0.05 * torch.randn(weight.shape))
    random = Random(0)
    ids = [random.randrange(config.vocab_size) for _ in range(TOKENS + 1)]
    result = trainer.forward_backward(RUN_ID, [Datum(ids[:-1], ids[1:])], "cross_entropy")
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return torch.tensor([result.loss]), torch.cat([each.flatten() for each in gradients]).cpu()
