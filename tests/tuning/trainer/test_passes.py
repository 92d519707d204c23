"""A pass against plain torch: every loss with its gradients, several targets a place, and masked targets."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.tuning.trainer.conftest import make_data
from tests.tuning.trainer.losses.formulas import FORMULAS, Row
from tests.tuning.trainer.pass_data import DATA, with_candidates
from tests.tuning.trainer.warm_runs import gradients, warm
from tuning.trainer.datum import Datum
from tuning.trainer.losses import target_logprobs
from tuning.trainer.losses.table import LOSSES
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.trainer import Trainer

SINGLE = [name for name, loss in LOSSES.items() if loss.group_size == 1 and name != "kto"]
CANDIDATES = ("cross_entropy", "importance_sampling")


def plain_logprobs(trainer: Trainer, data: Sequence[Datum]) -> list[Tensor]:
    """By datum, log p of every token (N, V), computed by itself from the logits of the whole model."""
    return [
        trainer.base.causal(input_ids=torch.tensor([datum.token_ids]), use_cache=False)
        .logits[0]
        .log_softmax(-1)
        for datum in data
    ]


def plain_rows(trainer: Trainer, data: Sequence[Datum]) -> list[Row]:
    """The tokens as the formulas of the losses have them."""
    return [
        [
            {"p": logprobs[place, target]}
            | {name: torch.tensor(values[place]) for name, values in datum.inputs.items()}
            for place, target in enumerate(datum.target_ids)
        ]
        for datum, logprobs in zip(data, plain_logprobs(trainer, data), strict=True)
    ]


def assert_same_pass(trainer: Trainer, loss: float, expected: Tensor) -> None:
    """The loss and the gradients that the pass left in the run are those of `expected`."""
    own = gradients(trainer, "a")
    trainer.drop_gradients("a")
    expected.backward()
    assert loss == pytest.approx(expected.item(), abs=1e-5, rel=1e-5)
    for name, gradient in gradients(trainer, "a").items():
        assert torch.allclose(own[name], gradient, atol=1e-5, rtol=1e-5), name


@pytest.mark.parametrize("train_output", [False, True], ids=["frozen output", "trained output"])
@pytest.mark.parametrize("in_blocks", [False, True], ids=["whole", "in blocks"])
@pytest.mark.parametrize("name", SINGLE)
def test_a_loss_and_its_gradients_are_those_of_plain_torch(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch, name: str, in_blocks: bool, train_output: bool
) -> None:
    if in_blocks:
        monkeypatch.setattr(target_logprobs, "tokens_per_block", lambda vocab_size, device: 5)
    trainer = warm(Trainer(base), train_output=train_output)
    result = trainer.forward_backward("a", DATA, name)
    assert_same_pass(trainer, result.loss, FORMULAS[name](plain_rows(trainer, DATA)))


def column(data: Sequence[Datum], index: int) -> list[Datum]:
    return [
        Datum(
            datum.token_ids,
            np.asarray(datum.target_ids)[:, index].tolist(),
            {name: np.asarray(values)[:, index].tolist() for name, values in datum.inputs.items()},
        )
        for datum in data
    ]


@pytest.mark.parametrize("in_blocks", [False, True], ids=["whole", "in blocks"])
@pytest.mark.parametrize("name", CANDIDATES)
def test_several_targets_a_place_are_a_sum_over_them(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch, name: str, in_blocks: bool
) -> None:
    if in_blocks:
        monkeypatch.setattr(target_logprobs, "tokens_per_block", lambda vocab_size, device: 5)
    trainer = warm(Trainer(base, scores_masked=True))
    data = with_candidates(DATA, 3)
    result = trainer.forward_backward("a", data, name)
    columns = [FORMULAS[name](plain_rows(trainer, column(data, index))) for index in range(3)]
    assert_same_pass(trainer, result.loss, torch.stack(columns).sum())
    for values, datum, plain in zip(result.logprobs, data, plain_logprobs(trainer, data), strict=True):
        assert torch.allclose(values, plain.gather(1, torch.from_numpy(datum.target_ids)), atol=1e-5)


def test_masked_targets_have_logprobs_if_the_trainer_scores_them(base: BaseModel) -> None:
    trainer = warm(Trainer(base, scores_masked=True))
    for datum, values, plain in zip(
        DATA,
        trainer.forward_backward("a", DATA, "cross_entropy").logprobs,
        plain_logprobs(trainer, DATA),
        strict=True,
    ):
        assert torch.allclose(
            values, plain.gather(1, torch.tensor(datum.target_ids)[:, None])[:, 0], atol=1e-5
        )


def test_a_pass_without_weights_weighs_each_target_one(base: BaseModel) -> None:
    trainer = warm(Trainer(base))
    (datum,) = make_data([6])
    ones = Datum(datum.token_ids, datum.target_ids, {"weights": [1.0] * 6})
    expected = trainer.forward("a", [ones], "cross_entropy").loss
    assert trainer.forward("a", [datum], "cross_entropy").loss == expected


def test_a_pass_in_which_no_target_counts_leaves_no_gradient(base: BaseModel) -> None:
    trainer = warm(Trainer(base, scores_masked=True))
    data = make_data([6, Random(0).randrange(2, 9)], weights=lambda random: 0.0)
    result = trainer.forward_backward("a", data, "cross_entropy")
    assert result.loss == 0 and all(values.isfinite().all() for values in result.logprobs)
    assert not any(gradient.any() for gradient in gradients(trainer, "a").values())
