"""Data for training passes."""

from collections.abc import Sequence

import numpy as np

from tests.tuning.trainer.conftest import VOCAB, make_data
from tuning.trainer.datum import Datum

DATA = make_data(
    [9, 4, 12, 7],
    weights=lambda random: random.choice((0.0, 1.0, 0.5)),
    logprobs=lambda random: random.uniform(-7, -4),
    reference_logprobs=lambda random: random.uniform(-7, -4),
    advantages=lambda random: random.choice((0.0, random.uniform(-1, 1))),
    sequence_ratio_mask=lambda random: random.choice((0.0, 1.0)),
)


def with_candidates(data: Sequence[Datum], num_candidates: int) -> list[Datum]:
    """The data with several random targets a place, and random inputs for each."""
    random = np.random.default_rng(0)
    return [
        Datum(
            datum.token_ids,
            random.integers(0, VOCAB, (len(datum), num_candidates)),
            {
                "weights": random.choice((0.0, 1.0, 0.5), (len(datum), num_candidates)),
                "logprobs": random.uniform(-7, -4, (len(datum), num_candidates)),
                "advantages": random.uniform(-1, 1, (len(datum), num_candidates)),
            },
        )
        for datum in data
    ]
