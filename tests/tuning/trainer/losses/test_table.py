"""Each loss against its formula, written out token by token, and its gradients."""

import math
from collections.abc import Callable, Mapping
from random import Random

import pytest
import torch
from torch import Tensor

from inference.errors import BadRequest
from tuning.trainer.losses.table import LOSSES, complete_config, find_loss
from tuning.trainer.losses.token_losses import ScoredTokens

LENGTHS = (3, 5, 2, 4)
Row = list[dict[str, Tensor]]  # by token: the log probability p and the inputs


def scored_tokens(seed: int) -> ScoredTokens:
    """Four sequences, with the inputs of every loss."""
    generator = torch.Generator().manual_seed(seed)
    size = sum(LENGTHS)

    def uniform(low: float, high: float) -> Tensor:
        return torch.rand(size, generator=generator) * (high - low) + low

    logprobs = uniform(-3, -0.1).requires_grad_()
    near = logprobs.detach() + uniform(-0.5, 0.5)
    weights = (uniform(0, 1) > 0.3).float()
    weights[[0, 3, 8, 10]] = 1  # no sequence without a trained token
    return ScoredTokens(
        logprobs,
        torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)),
        len(LENGTHS),
        {
            "weights": weights,
            "logprobs": near,
            "reference_logprobs": near,
            "advantages": uniform(-1, 1),
            "sequence_ratio_mask": (uniform(0, 1) > 0.2).float(),
        },
    )


def rows_of(tokens: ScoredTokens) -> list[Row]:
    flat = [
        {"p": tokens.logprobs[i], **{name: values[i] for name, values in tokens.inputs.items()}}
        for i in range(len(tokens.logprobs))
    ]
    rows, start = [], 0
    for length in LENGTHS:
        rows.append(flat[start : start + length])
        start += length
    return rows


def ratio(token: dict[str, Tensor]) -> Tensor:
    return torch.exp(token["p"] - token["logprobs"])


def between(value: Tensor, low: float, high: float) -> Tensor:
    return torch.clamp(value, low, high)


def cross_entropy(rows: list[Row]) -> Tensor:
    return sum(-token["weights"] * token["p"] for row in rows for token in row)  # type: ignore[return-value]


def importance_sampling(rows: list[Row]) -> Tensor:
    return sum(-ratio(token) * token["advantages"] for row in rows for token in row)  # type: ignore[return-value]


def ppo(rows: list[Row]) -> Tensor:
    terms = [
        torch.min(ratio(t) * t["advantages"], between(ratio(t), 0.8, 1.2) * t["advantages"])
        for row in rows
        for t in row
    ]
    return -torch.stack(terms).sum()


def cispo(rows: list[Row]) -> Tensor:
    terms = [between(ratio(t).detach(), 0.0, 4.0) * t["p"] * t["advantages"] for row in rows for t in row]
    return -torch.stack(terms).sum()


def dro(rows: list[Row]) -> Tensor:
    terms = [t["p"] * t["advantages"] - 0.05 / 2 * (t["p"] - t["logprobs"]) ** 2 for row in rows for t in row]
    return -torch.stack(terms).sum()


def gspo(rows: list[Row]) -> Tensor:
    total = torch.zeros(())
    for row in rows:
        masked = [t for t in row if t["sequence_ratio_mask"]]
        mean = sum(t["p"] - t["logprobs"] for t in masked) / max(1, len(masked))
        value = torch.as_tensor(mean).exp().detach()
        for t in row:
            own = value * torch.exp(t["p"] - t["p"].detach())
            total = total - torch.min(own * t["advantages"], between(own, 0.8, 1.2) * t["advantages"])
    return total


def reward(row: Row) -> Tensor:
    return sum(t["weights"] * (t["p"] - t["reference_logprobs"]) for t in row)  # type: ignore[return-value]


def length(row: Row) -> float:
    return float(sum(t["weights"] for t in row))


def dpo_sigmoid(rows: list[Row]) -> Tensor:
    margins = [reward(rows[i]) - reward(rows[i + 1]) for i in (0, 2)]
    return sum(-torch.log(torch.sigmoid(0.1 * margin)) for margin in margins)  # type: ignore[return-value]


def dpo_hinge(rows: list[Row]) -> Tensor:
    margins = [reward(rows[i]) - reward(rows[i + 1]) for i in (0, 2)]
    return sum(torch.relu(1 - 0.1 * margin) for margin in margins)  # type: ignore[return-value]


def dpo_ipo(rows: list[Row]) -> Tensor:
    means = [reward(row) / length(row) for row in rows]
    return sum((means[i] - means[i + 1] - 1 / 0.2) ** 2 for i in (0, 2))  # type: ignore[return-value]


def orpo(rows: list[Row]) -> Tensor:
    means = [sum(t["weights"] * t["p"] for t in row) / length(row) for row in rows]
    odds = [torch.exp(mean) / (1 - torch.exp(mean)) for mean in means]
    terms = [-means[i] - 0.1 * torch.log(torch.sigmoid(torch.log(odds[i] / odds[i + 1]))) for i in (0, 2)]
    return torch.stack(terms).sum()


def kto(rows: list[Row]) -> Tensor:
    """Rows 0 and 2 are desirable. The reference point is 0.3."""
    terms = [torch.sigmoid(0.1 * (reward(row) - 0.3)) for row in rows[0::2]]
    terms += [torch.sigmoid(0.1 * (0.3 - reward(row))) for row in rows[1::2]]
    return sum(1 - term for term in terms)  # type: ignore[return-value]


FORMULAS: Mapping[str, Callable[[list[Row]], Tensor]] = {
    each.__name__: each
    for each in (
        cross_entropy,
        importance_sampling,
        ppo,
        cispo,
        dro,
        gspo,
        dpo_sigmoid,
        dpo_hinge,
        dpo_ipo,
        orpo,
        kto,
    )
}


def test_every_loss_is_compared_with_its_formula() -> None:
    assert FORMULAS.keys() == LOSSES.keys()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_those_of_its_formula(name: str, seed: int) -> None:
    tokens = scored_tokens(seed)
    (expected_gradient,) = torch.autograd.grad(expected := FORMULAS[name](rows_of(tokens)), tokens.logprobs)
    config = {"kl": 0.3} if name == "kto" else {}
    if name == "kto":
        signs = torch.where(tokens.rows % 2 == 0, 1.0, -1.0)
        tokens.inputs["weights"].mul_(signs)  # type: ignore[attr-defined]
    loss = LOSSES[name].function(tokens, complete_config(LOSSES[name], config))
    (gradient,) = torch.autograd.grad(loss, tokens.logprobs)
    assert torch.allclose(loss, expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(gradient, expected_gradient, rtol=1e-5, atol=1e-5)


def test_the_first_loss_of_dpo_is_log_2_a_pair() -> None:
    tokens = scored_tokens(0)
    inputs = {**tokens.inputs, "reference_logprobs": tokens.logprobs.detach()}
    same = ScoredTokens(tokens.logprobs, tokens.rows, tokens.num_rows, inputs)
    loss = LOSSES["dpo_sigmoid"].function(same, {"beta": 0.1, "scale": 0.5})
    assert math.isclose(loss.item(), math.log(2), rel_tol=1e-6)


def test_targets_outside_of_the_mask_change_nothing() -> None:
    random = Random(0)
    for loss in LOSSES.values():
        if loss.mask:
            tokens = scored_tokens(random.randrange(100))
            tokens.inputs[loss.mask][::2] = 0
            value = loss.function(tokens, complete_config(loss, {}))
            (gradient,) = torch.autograd.grad(value, tokens.logprobs)
            assert not gradient[::2].any()


def test_an_unknown_loss_or_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadRequest, match=r"loss_fn must be one of cross_entropy, .*got 'sft'"):
        find_loss("sft")
    with pytest.raises(BadRequest, match="it has clip_low_threshold, clip_high_threshold, got 'beta'"):
        complete_config(find_loss("ppo"), {"beta": 1.0})
