"""All weights in training: their gradients, their masters, and the model that is written."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.errors import BadRequest
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tuning.trainer.conftest import weighted_data
from tuning.trainer.model.base_model import BaseModel, load_base
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer

RUN = "run"
DATA = weighted_data([9, 5, 7])


def full_trainer(folder: Path, dtype: str = "float32") -> Trainer:
    trainer = Trainer(load_base(folder, ModelSettings(dtype=dtype, device="cpu")))
    trainer.create_full_run(RUN)
    return trainer


@pytest.mark.parametrize("is_tied", [False, True])
def test_every_weight_gets_the_gradient_of_the_plain_loss(tmp_path: Path, is_tied: bool) -> None:
    """Tied embeddings get that of the output layer, too."""
    folder = tiny.llama(tmp_path, tie_word_embeddings=is_tied)
    trainer = full_trainer(folder)
    trainer.forward_backward(RUN, DATA, "cross_entropy")
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for datum in DATA:
        logits = plain(input_ids=torch.tensor([datum.token_ids])).logits[0]
        losses = torch.nn.functional.cross_entropy(logits, torch.tensor(datum.target_ids), reduction="none")
        (losses * torch.tensor(datum.inputs["weights"])).sum().backward()
    gradients = {name: weight.grad for name, weight in plain.named_parameters()}
    assert gradients.keys() == trainer.runs[RUN].parameters.keys()
    for name, weight in trainer.runs[RUN].parameters.items():
        torch.testing.assert_close(weight.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_masters_add_up_steps_that_bfloat16_cannot_resolve(model_folder: Path) -> None:
    trainer = full_trainer(model_folder, "bfloat16")
    weight = trainer.base.causal.model.layers[0].mlp.up_proj.weight
    before = weight.detach().clone()
    for _ in range(3):
        trainer.forward_backward(RUN, DATA, "cross_entropy")
        assert weight.grad is None, "the gradient is the master's"
        trainer.optim_step(RUN, AdamParams(learning_rate=1e-6))
    master = trainer.runs[RUN].parameters["model.layers.0.mlp.up_proj.weight"]
    assert weight.dtype == torch.bfloat16 and master.dtype == torch.float32
    assert (master - before).abs().median().item() == pytest.approx(3e-6, rel=0.1)
    assert (weight == before).float().mean() > 0.9
    trainer.forward_backward(RUN, DATA, "cross_entropy")
    trainer.optim_step(RUN, AdamParams(learning_rate=1e-2))
    torch.testing.assert_close(weight, master.to(torch.bfloat16))
    assert (weight != before).float().mean() > 0.9


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_result_is_a_model_that_transformers_loads(
    model_folder: Path, tmp_path: Path, dtype: str
) -> None:
    trainer = full_trainer(model_folder, dtype)
    trainer.forward_backward(RUN, DATA, "cross_entropy")
    trainer.optim_step(RUN, AdamParams(learning_rate=1e-2))
    trainer.save(RUN, tmp_path, with_optimizer=False)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert str(saved.dtype) == f"torch.{dtype}"
    ids = torch.tensor([DATA[0].token_ids])
    torch.testing.assert_close(saved(input_ids=ids).logits, trainer.base.causal(input_ids=ids).logits)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == trainer.base.tokenizer.chat_template


def test_the_saved_config_is_the_one_of_the_base_files(base: BaseModel, tmp_path: Path) -> None:
    """A setting that changed the loaded config is applied again when the result is loaded."""
    trainer = Trainer(base)
    trainer.create_full_run(RUN)
    base.causal.config.max_position_embeddings = 7
    trainer.save(RUN, tmp_path, with_optimizer=False)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config.max_position_embeddings == 512


def test_a_state_of_another_model_is_refused(model_folder: Path, tmp_path: Path) -> None:
    trainer = full_trainer(model_folder)
    trainer.save(RUN, tmp_path, with_optimizer=True)
    other = full_trainer(tiny.llama(tmp_path / "other", hidden_size=16))
    with pytest.raises(BadRequest, match="other weights"):
        other.load(RUN, tmp_path, with_optimizer=True)


def test_it_is_the_only_run(base: BaseModel) -> None:
    trainer = Trainer(base)
    trainer.create_run("adapter", LoraOptions(rank=2))
    with pytest.raises(BadRequest, match="the only run"):
        trainer.create_full_run(RUN)
