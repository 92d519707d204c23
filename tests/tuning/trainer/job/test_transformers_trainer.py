"""A job takes the steps of transformers' Trainer over peft's adapter: its losses, gradients and weights."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor
from torch.utils.data import DataLoader

from tests.tiny_models.families import DEVICE, tiny
from tests.tuning.trainer.conftest import VOCAB, job_spec
from tests.tuning.trainer.job.running import dataset, of_type, run_loaded
from tuning.data.examples import Example
from tuning.trainer.model.base_model import disable_dropout, split_model
from tuning.types import Hyperparameters

CASES: dict[str, dict[str, Any]] = {
    "llama": {"packing": True, "use_rslora": True, "optimizer": "sgd", "grad_clip": 0.05},
    "gemma2": {"use_dora": True, "train_output": True},
    "gpt2": {"activation_checkpointing": True},
    "mixtral": {"packing": True, "target_modules": ("q_proj", "v_proj")},
}
OPTIMIZERS = {"adamw": "adamw_torch", "sgd": "sgd"}
IGNORED = -100  # the label of a token that is not trained


class OrderedTrainer(transformers.Trainer):
    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_dataset, self.args.per_device_train_batch_size, collate_fn=pad)


def pad(examples: Sequence[Example]) -> dict[str, Tensor]:
    """A batch, padded on the right."""
    width = max(len(example.token_ids) for example in examples)
    ids, labels, mask = torch.zeros(3, len(examples), width, dtype=torch.long)
    labels += IGNORED
    for row, example in enumerate(examples):
        token_ids, is_trained = torch.tensor(example.token_ids), torch.tensor(example.weights) > 0
        ids[row, : len(token_ids)], mask[row, : len(token_ids)] = token_ids, 1
        labels[row, : len(token_ids)] = token_ids.where(is_trained, IGNORED)
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def train_with_transformers(
    model: Any, config: LoraConfig, examples: list[Example], values: Hyperparameters, seed: int, folder: Path
) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """The figures of each step, and the adapter after the last one."""
    config.inference_mode = False
    torch.manual_seed(seed)
    adapted = get_peft_model(model, config)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=values.batch_size,
        gradient_accumulation_steps=values.gradient_accumulation_steps,
        num_train_epochs=values.n_epochs,
        learning_rate=values.learning_rate,
        weight_decay=values.weight_decay,
        max_grad_norm=values.grad_clip,
        optim=OPTIMIZERS[values.optimizer],
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        remove_unused_columns=False,
        disable_tqdm=True,
        use_cpu=DEVICE == "cpu",
    )
    trainer = OrderedTrainer(adapted, arguments, train_dataset=examples)
    trainer.train()
    steps = [line for line in trainer.state.log_history if "grad_norm" in line]
    return steps, get_peft_model_state_dict(adapted, save_embedding_layers=False)


@pytest.mark.parametrize("family", CASES)
def test_a_job_takes_the_steps_of_transformers_trainer(tmp_path: Path, family: str) -> None:
    spec = job_spec(
        seed=3,
        n_epochs=2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        weight_decay=0.01,
        shuffle=False,
        warmup_steps=0,
        **CASES[family],
    )
    rows = dataset("supervised", num_rows=9)
    model = tiny(family, vocab_size=VOCAB).requires_grad_(False)
    disable_dropout(model)
    base = split_model(copy.deepcopy(model), None, VOCAB, context=128)
    lines = run_loaded(tmp_path / "job", base, spec, rows)
    result = Path(of_type(lines, "finished")[0]["folder"])
    config = LoraConfig.from_pretrained(str(result))
    expected, adapter = train_with_transformers(
        model, config, list(rows.examples), spec.hyperparameters, spec.seed, tmp_path
    )
    steps = of_type(lines, "step")
    assert len(steps) == len(expected) == 6
    for own, theirs in (("train_loss", "loss"), ("grad_norm", "grad_norm"), ("learning_rate",) * 2):
        values = [float(line[theirs]) for line in expected]
        assert [line[own] for line in steps] == pytest.approx(values, rel=1e-5)
    trained = load_file(result / "adapter_model.safetensors")
    assert trained.keys() == adapter.keys()
    for name, weight in trained.items():
        assert torch.allclose(weight, adapter[name].cpu(), atol=3e-5)
