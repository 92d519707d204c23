"""A model is measured at its first start; later starts of the same read its size."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from checks.memory.model_size import ModelSize
from checks.memory.remembered_size import FOLDER, remembered_size
from inference.model.kv_cost import KVCost
from inference.process.cache_folder import cache_folder, write_with_digest

SIZE = ModelSize(
    num_parameters=64,
    dtype="bfloat16",
    weights=128,
    kv_cost=KVCost(16, 4, ((1024, 8),)),
    layer_weights=(32, 32),
    quantization_savings={"int8": 60},
    mismatched_weights=(("lm_head.weight", (2, 3), (3, 2)),),
)
CONFIG = {"model_type": "llama", "rope_scaling": {"factor": 2.0}}


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    shutil.rmtree(cache_folder() / FOLDER, ignore_errors=True)


def tensors(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Mapping[str, torch.Tensor]:
    return {"weight": torch.empty(shape, dtype=dtype, device="meta")}


def is_measured(*inputs: Any, size: ModelSize = SIZE) -> bool:
    """Whether a start with these inputs measures the model. It gets the size in any case."""
    starts: list[int] = []

    def measure() -> ModelSize:
        starts.append(1)
        return size

    assert remembered_size(inputs, measure) == size
    return bool(starts)


def test_the_same_model_is_measured_once() -> None:
    measured = partial(is_measured, CONFIG, 128, tensors(4, 4), "auto")
    assert [measured(), measured()] == [True, False]


@pytest.mark.parametrize(
    "inputs",
    [
        (CONFIG | {"rope_scaling": {"factor": 4.0}}, 128, tensors(4, 4), "auto"),
        (CONFIG, 129, tensors(4, 4), "auto"),
        (CONFIG, 128, tensors(4, 8), "auto"),
        (CONFIG, 128, tensors(4, 4, dtype=torch.float32), "auto"),
        (CONFIG, 128, None, "auto"),
        (CONFIG, 128, tensors(4, 4), "paged"),
    ],
)
def test_another_model_is_measured(inputs: tuple[Any, ...]) -> None:
    is_measured(CONFIG, 128, tensors(4, 4), "auto")
    assert is_measured(*inputs)


def test_a_size_with_an_error_is_measured_each_time() -> None:
    refused = replace(SIZE, construct_error="needs its own code")
    assert [is_measured(CONFIG, size=refused) for _ in range(2)] == [True, True]


def test_a_damaged_file_is_measured() -> None:
    is_measured(CONFIG)
    for path in (cache_folder() / FOLDER).iterdir():
        path.write_bytes(path.read_bytes().replace(b"128", b"127"))
    assert is_measured(CONFIG)


def test_a_file_of_another_form_is_measured() -> None:
    is_measured(CONFIG)
    for path in (cache_folder() / FOLDER).iterdir():
        write_with_digest(path, b'{"num_parameters": "many"}')
    assert is_measured(CONFIG)
