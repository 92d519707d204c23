"""How many replicas a load needs, and how busy one is."""

from types import SimpleNamespace
from typing import Any

import pytest

from inference.backend_info import BackendLoad
from inference.replicas.replica import share_of_capacity
from inference.replicas.scaling_policy import LOAD, choose_num_replicas


@pytest.mark.parametrize(
    ("metrics", "num_replicas"),
    [
        (None, 3),
        ({}, 3),
        ({LOAD: {}}, 3),
        ({LOAD: {"a": 0.0, "b": 0.0}}, 0),
        ({LOAD: {"a": 0.7}}, 1),
        ({LOAD: {"a": 1.4, "b": 0.7}}, 3),
    ],
)
def test_replicas_are_added_until_each_has_the_target_load(metrics: Any, num_replicas: int) -> None:
    context = SimpleNamespace(aggregated_metrics=metrics, target_num_replicas=3)
    assert choose_num_replicas(context) == (pytest.approx(num_replicas), {})


@pytest.mark.parametrize(
    ("load", "share"),
    [
        (BackendLoad(), 0.0),
        (BackendLoad(running=2), 0.5),
        (BackendLoad(running=4, waiting=4), 2.0),
        (BackendLoad(running=1, kv_usage=0.9), 0.9),
    ],
)
def test_a_full_batch_or_cache_is_a_load_of_one(load: BackendLoad, share: float) -> None:
    assert share_of_capacity(load, max_sequences=4) == share
