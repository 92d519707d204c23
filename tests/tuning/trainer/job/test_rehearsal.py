"""Rehearsal: a model goes on predicting its own text as it did, while it learns other rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tuning.trainer.conftest import job_spec, weighted_data
from tests.tuning.trainer.job.running import StopAfter, losses, of_type, run_job
from tuning.trainer.job.rehearsal import (
    NUM_CANDIDATES,
    WRITES,
    Rehearsal,
    count_per_step,
    prepare_rehearsal,
    read_rehearsal,
    with_candidates,
    write_rehearsal,
)
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer
from tuning.trainer.written_text import WrittenText

PROMPTS = [[1, 2, 10, 11, 8, 9], [1, 2, 12, 8, 9]]
TEXT = WrittenText([1, 2, 3, 4, 5, 6], prefix_length=3)


def test_the_probabilities_of_what_was_written_are_remembered(base: BaseModel) -> None:
    datum = with_candidates(base, TEXT)
    with torch.no_grad():
        logits = base.causal(input_ids=torch.tensor([TEXT.token_ids[:-1]])).logits[0]
    expected = logits.softmax(-1).topk(NUM_CANDIDATES)
    weights = np.asarray(datum.inputs["weights"])
    assert weights.shape == (5, NUM_CANDIDATES) and not weights[:2].any()
    assert np.allclose(weights[2:], expected.values[2:].numpy(), atol=1e-5)
    assert np.array_equal(np.asarray(datum.target_ids)[2:], expected.indices[2:].numpy())


def test_a_step_takes_the_next_texts_and_weighs_them_as_one(base: BaseModel) -> None:
    texts = [WrittenText([1, first, 3, 4], prefix_length=1) for first in range(5)]
    rehearsal = Rehearsal([with_candidates(base, text) for text in texts], per_step=2)
    steps = [rehearsal.of_step(step) for step in range(3)]
    assert [datum.token_ids[1] for data in steps for datum in data] == [0, 1, 2, 3, 4, 0]
    totals = [sum(np.asarray(datum.inputs["weights"]).sum() for datum in data) for data in steps]
    assert totals == pytest.approx([1, 1, 1], abs=1e-5)


def test_the_texts_of_a_step_follow_from_its_rows() -> None:
    def per_step(**changes: Any) -> int:
        return count_per_step(job_spec(batch_size=4, **changes).hyperparameters)

    assert per_step() == 0 and per_step(rehearsal=0.01) == 1
    assert per_step(rehearsal=0.5) == 2 and per_step(rehearsal=1, gradient_accumulation_steps=2) == 8


def test_texts_are_written_once_for_a_job(base: BaseModel, tmp_path: Path) -> None:
    spec, sentences = job_spec(rehearsal=1), list[str]()
    first, again = (
        prepare_rehearsal(tmp_path, base, PROMPTS, spec, num_steps=3, report=sentences.append)
        for _ in range(2)
    )
    assert sentences == [
        WRITES.format(count=6),
        "Rehearsal: 6 of 6 questions written",
        "Rehearsal: 6 of 6 answers written",
    ]
    assert first and again and 1 < len(first.data) <= 6
    for one, other in zip(first.data, again.data, strict=True):
        assert np.array_equal(one.token_ids, other.token_ids)
        assert np.array_equal(one.target_ids, other.target_ids)
        assert np.array_equal(one.inputs["weights"], other.inputs["weights"])
    assert prepare_rehearsal(tmp_path / "other", base, PROMPTS, job_spec(), num_steps=3) is None
    assert read_rehearsal(tmp_path / "other") is None


def test_a_model_that_rehearses_stays_nearer_to_what_it_was(base: BaseModel, tmp_path: Path) -> None:
    """By the divergence from the model before, on texts that it wrote and did not rehearse."""
    with torch.no_grad():
        base.causal.get_output_embeddings().weight.mul_(20)  # a model that prefers some tokens
    rows = weighted_data([6] * 4)
    texts = write_rehearsal(base, PROMPTS, num_texts=40, seed=0)
    rehearsal, held_out = Rehearsal(texts[8:], per_step=4), Rehearsal(texts[:8], per_step=8).of_step(0)
    trainer = Trainer(base)
    trainer.create_run("before", LoraOptions(rank=4))
    entropy = trainer.forward("before", held_out, "cross_entropy").loss
    divergence = {}
    for name in ("plain", "rehearsed"):
        trainer.create_run(name, LoraOptions(rank=4))
        for step in range(15):
            trainer.forward_backward(name, rows, "cross_entropy")
            if name == "rehearsed":
                trainer.forward_backward(name, rehearsal.of_step(step), "cross_entropy")
            trainer.optim_step(name, AdamParams(learning_rate=1e-2))
        divergence[name] = trainer.forward(name, held_out, "cross_entropy").loss - entropy
    assert 0 < divergence["rehearsed"] < 0.8 * divergence["plain"], divergence


def test_a_paused_job_rehearses_the_same_texts(tmp_path: Path, model_folder: Path) -> None:
    spec = job_spec(rehearsal=0.5)
    lines = run_job(tmp_path / "whole", model_folder, spec)
    assert any("rehearses" in line["text"] for line in of_type(lines, "message"))
    expected, folder = losses(lines), tmp_path / "halves"
    both_halves = losses(run_job(folder, model_folder, spec, is_stopped=StopAfter(4)))
    both_halves |= losses(run_job(folder, model_folder, spec))
    assert both_halves.keys() == expected.keys()
    assert max(abs(both_halves[step] - expected[step]) for step in expected) < 1e-4
