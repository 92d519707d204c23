"""The base model of a trainer has the positions of the served one."""

from pathlib import Path

import pytest
import torch

from inference.model.load import loader
from inference.model.load.rope import RopeScaling, freeze_frequencies
from inference.model.quantization.schemes import NONE
from tuning.trainer.open_base import open_base
from tuning.types import TrainingBase

CONTEXT = 1024  # the model was trained with 512


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_scaling_of_the_positions_is_that_of_the_server(model_folder: Path, kind: str) -> None:
    base = TrainingBase(
        names=("served",),
        model_folder=str(model_folder),
        context=CONTEXT,
        dtype="float32",
        device="cpu",
        rope_scaling=kind,
        rope_factor=4.0,
    )
    served = loader.load(
        model_folder, dtype="float32", device="cpu", trust_remote_code=False, scaling=RopeScaling(kind, 4.0)
    )
    freeze_frequencies(served.model, CONTEXT)
    opened = open_base(base, NONE)
    ids = torch.arange(5, 45)[None]
    expected = served.model(input_ids=ids, use_cache=False).logits
    assert opened.context == CONTEXT
    assert torch.equal(opened.causal(input_ids=ids, use_cache=False).logits, expected)
