"""A dataset's rows as data of the loss that a method trains with, by batches of rows.

Knows encoded rows and the names of losses; the model only as a function that scores data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from tuning.data.examples import Dataset, Example, PreferencePair, RatedExample
from tuning.trainer.datum import Datum
from tuning.types import Hyperparameters, Method

# Data → by datum, the log probabilities (N,) that a model gives its targets; NaN where their weight is 0.
ScoreFn = Callable[[Sequence[Datum]], Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """The data of some rows, for the verb forward_backward. The loss is a mean: over tokens, or over rows."""

    data: Sequence[Datum]
    loss_fn: str
    config: Mapping[str, float]


class TrainingData(Protocol):
    """The rows of a dataset, for one method.

    data             the sequences of all rows
    group_size       data of a row that are computed in one pass
    needs_reference  every datum must get the log probabilities of a reference model first
    """

    data: Sequence[Datum]
    group_size: int
    needs_reference: bool

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def batch(self, rows: Sequence[int], policy: ScoreFn) -> TrainingBatch:
        """policy: the model in training."""
        ...


class SupervisedData:
    """Examples. The loss is the mean of -log p over the trained tokens of a batch."""

    group_size = 1
    needs_reference = False

    def __init__(self, examples: Sequence[Example]) -> None:
        self.data: Sequence[Datum] = [to_datum(example) for example in examples]

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, rows: Sequence[int], policy: ScoreFn) -> TrainingBatch:
        data = [self.data[row] for row in rows]
        total = sum(sum(datum.inputs["weights"]) for datum in data) or 1.0
        return TrainingBatch([scale_weights(datum, 1 / total) for datum in data], "cross_entropy", {})


class PreferenceData:
    """Pairs, each as two data: the chosen and the rejected sequence. The loss is the mean over pairs."""

    group_size = 2

    def __init__(self, pairs: Sequence[PreferencePair], loss_fn: str, beta: float) -> None:
        examples = [example for pair in pairs for example in (pair.chosen, pair.rejected)]
        self.data: Sequence[Datum] = [to_datum(example) for example in examples]
        self.loss_fn, self.beta = loss_fn, beta
        self.needs_reference = loss_fn != "orpo"

    def __len__(self) -> int:
        return len(self.data) // 2

    def batch(self, rows: Sequence[int], policy: ScoreFn) -> TrainingBatch:
        data = [self.data[index] for row in rows for index in (2 * row, 2 * row + 1)]
        return TrainingBatch(data, self.loss_fn, {"beta": self.beta, "scale": 1 / len(rows)})


class RatedData:
    """Rated examples, then as many mismatched ones: each prompt with the completion of the next row.

    The loss is the mean over rows. How far the model is from the reference on mismatched sequences is the
    point from which rewards are counted (KTO, section 4.1).
    """

    group_size = 1
    needs_reference = True

    def __init__(self, rated_examples: Sequence[RatedExample], beta: float) -> None:
        examples = [each.example for each in rated_examples]
        signs = [1.0 if each.is_desirable else -1.0 for each in rated_examples]
        rated = [
            scale_weights(to_datum(example), sign) for example, sign in zip(examples, signs, strict=True)
        ]
        following = [*examples[1:], *examples[:1]]
        mismatched = [to_datum(mismatch(*both)) for both in zip(examples, following, strict=True)]
        self.data: Sequence[Datum] = [*rated, *mismatched]
        self.beta = beta

    def __len__(self) -> int:
        return len(self.data) // 2

    def batch(self, rows: Sequence[int], policy: ScoreFn) -> TrainingBatch:
        mismatched = [self.data[len(self) + row] for row in rows]
        rewards = [
            float((logprobs - torch.tensor(datum.inputs["reference_logprobs"])).nansum())
            for logprobs, datum in zip(policy(mismatched), mismatched, strict=True)
        ]
        config = {"beta": self.beta, "scale": 1 / len(rows), "kl": max(0.0, sum(rewards) / len(rewards))}
        return TrainingBatch([self.data[row] for row in rows], "kto", config)


def training_data(dataset: Dataset, method: Method, hyperparameters: Hyperparameters) -> TrainingData:
    """The dataset's rows, which were encoded for this method."""
    if method == "supervised":
        return SupervisedData(dataset.examples)
    if method == "kto":
        return RatedData(dataset.rated_examples, hyperparameters.beta)
    loss_fn = "orpo" if method == "orpo" else f"dpo_{hyperparameters.loss_type}"
    return PreferenceData(dataset.pairs, loss_fn, hyperparameters.beta)


def add_reference(training_data: TrainingData, logprobs: Sequence[Tensor]) -> None:
    """Give each datum the log probabilities of the reference model; unscored targets have 0."""
    training_data.data = [
        replace(datum, inputs={**datum.inputs, "reference_logprobs": values.nan_to_num().tolist()})
        for datum, values in zip(training_data.data, logprobs, strict=True)
    ]


def to_datum(example: Example) -> Datum:
    return Datum(example.token_ids[:-1], example.token_ids[1:], {"weights": example.weights[1:]})


def scale_weights(datum: Datum, factor: float) -> Datum:
    weights = [weight * factor for weight in datum.inputs["weights"]]
    return replace(datum, inputs={**datum.inputs, "weights": weights})


def mismatch(example: Example, other: Example) -> Example:
    """The prompt of `example` with the completion of `other`, no longer than the longer of both."""
    own, foreign = completion_start(example), completion_start(other)
    longest = max(len(example.token_ids), len(other.token_ids))
    token_ids = example.token_ids[:own] + other.token_ids[foreign:]
    weights = example.weights[:own] + other.weights[foreign:]
    return Example(token_ids[:longest], weights[:longest], example.line)


def completion_start(example: Example) -> int:
    return next((place for place, weight in enumerate(example.weights) if weight), len(example.weights))


def prompt_of(datum: Datum) -> list[int]:
    """The tokens before the first one that is trained; the first token of all at least."""
    length = next((place for place, weight in enumerate(datum.inputs["weights"]) if weight), 0)
    return list(datum.token_ids[: length + 1])
