"""The formulas of the losses, token by token in plain torch."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Row = list[dict[str, Tensor]]  # by token: the log probability p and the inputs


def ratio(token: dict[str, Tensor]) -> Tensor:
    return torch.exp(token["p"] - token["logprobs"])


def between(value: Tensor, low: float, high: float) -> Tensor:
    return torch.clamp(value, low, high)


def cross_entropy(rows: list[Row]) -> Tensor:
    return sum(-token["weights"] * token["p"] for row in rows for token in row)  # type: ignore[return-value]


def importance_sampling(rows: list[Row]) -> Tensor:
    return sum(-token["weights"] * ratio(token) * token["advantages"] for row in rows for token in row)  # type: ignore[return-value]


def ppo(rows: list[Row]) -> Tensor:
    terms = [
        t["weights"] * torch.min(ratio(t) * t["advantages"], between(ratio(t), 0.8, 1.2) * t["advantages"])
        for row in rows
        for t in row
    ]
    return -torch.stack(terms).sum()


def cispo(rows: list[Row]) -> Tensor:
    terms = [
        t["weights"] * between(ratio(t).detach(), 0.0, 4.0) * t["p"] * t["advantages"]
        for row in rows
        for t in row
    ]
    return -torch.stack(terms).sum()


def dro(rows: list[Row]) -> Tensor:
    terms = [
        t["weights"] * (t["p"] * t["advantages"] - 0.05 / 2 * (t["p"] - t["logprobs"]) ** 2)
        for row in rows
        for t in row
    ]
    return -torch.stack(terms).sum()


def gspo(rows: list[Row]) -> Tensor:
    total = torch.zeros(())
    for row in rows:
        masked = [t for t in row if t["sequence_ratio_mask"]]
        mean = sum(t["p"] - t["logprobs"] for t in masked) / max(1, len(masked))
        value = torch.as_tensor(mean).exp().detach()
        for t in row:
            own = value * torch.exp(t["p"] - t["p"].detach())
            term = torch.min(own * t["advantages"], between(own, 0.8, 1.2) * t["advantages"])
            total = total - t["weights"] * term
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
