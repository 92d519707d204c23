"""Logits of a trained output layer, or of several targets a place, are computed once; gradients are equal."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.tuning.trainer.pass_data import DATA, with_candidates
from tuning.trainer.datum import Datum
from tuning.trainer.losses import block_losses, table, target_logprobs
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.trainer import Trainer


def trainer_of(base: BaseModel, **options: object) -> Trainer:
    trainer = Trainer(base)
    trainer.create_run("a", LoraOptions(rank=4, **options))  # type: ignore[arg-type]
    for weight in trainer.parameters("a"):
        torch.nn.init.normal_(weight, std=0.1)
    return trainer


def one_pass(trainer: Trainer, data: list[Datum], name: str) -> tuple[float, list[Tensor], int]:
    """The loss, the gradients, and how many rows of logits were computed."""
    num_rows = 0

    def count(module: object, inputs: tuple[Tensor], output: object) -> None:
        nonlocal num_rows
        num_rows += inputs[0].flatten(0, -2).shape[0]

    hook = trainer.base.causal.get_output_embeddings().register_forward_hook(count)
    trainer.drop_gradients("a")
    loss = trainer.forward_backward("a", data, name).loss
    hook.remove()
    return (
        loss,
        [weight.grad.clone() for weight in trainer.parameters("a") if weight.grad is not None],
        num_rows,
    )


TRAINED = {"train_output": True}
OUTPUT_ALONE = {"target_modules": ("lm_head",)}


@pytest.mark.parametrize(
    ("name", "num_targets", "options"),
    [
        *((name, 1, TRAINED) for name in ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro")),
        ("cross_entropy", 1, OUTPUT_ALONE),
        ("cross_entropy", 3, {}),
        ("importance_sampling", 3, TRAINED),
    ],
)
def test_logits_are_computed_once(
    name: str,
    num_targets: int,
    options: dict[str, object],
    base: BaseModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (block_losses, target_logprobs):
        monkeypatch.setattr(module, "tokens_per_block", lambda vocab_size, device: 5)
    trainer = trainer_of(base, **options)
    data = DATA if num_targets == 1 else with_candidates(DATA, num_targets)
    loss, gradients, num_rows = one_pass(trainer, data, name)
    assert num_rows <= sum(map(len, data))
    monkeypatch.setitem(table.LOSSES, name, replace(table.LOSSES[name], is_per_token=False))
    expected_loss, expected, num_more = one_pass(trainer, data, name)
    assert num_more == 2 * num_rows and loss == pytest.approx(expected_loss, rel=1e-6)
    assert len(gradients) == len(expected) > 0
    for gradient, other in zip(gradients, expected, strict=True):
        assert (gradient - other).abs().max() <= 1e-6 * max(1.0, float(other.abs().max()))
