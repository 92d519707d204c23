"""The trainer's process for runs loads the base model as it is served."""

from pathlib import Path

import pytest

from inference.model.quantization.packed_tensor import PackedTensor
from tests.families import needs_fused
from tuning.trainer.server import TrainerServer
from tuning.types import TrainingBase


@needs_fused
@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_its_weights_are_packed_as_the_server_packs_them(model_folder: Path, quantize: str) -> None:
    base = TrainingBase(
        names=("base",), model_folder=str(model_folder), context=64, dtype="float32", quantize=quantize
    )
    causal = TrainerServer(base).trainer.base.causal
    weight = causal.model.layers[0].mlp.up_proj.weight
    assert isinstance(weight, PackedTensor) is (quantize != "none")
