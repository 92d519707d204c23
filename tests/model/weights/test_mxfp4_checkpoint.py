"""Experts in MXFP4 keep the bits of their files, whose values are those of the standard."""

from pathlib import Path

import torch

from inference.model.load.formats import FORMATS
from inference.model.load.loader import load
from inference.model.quantization.packed_tensor import PackedTensor
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models.mxfp4_files import in_four_bits

IDS = torch.tensor([[5, 6, 7, 8]])
STACKS = (".experts.gate_up_proj", ".experts.down_proj")


def test_mxfp4_has_the_values_of_its_standard(tmp_path: Path) -> None:
    """Packed with its bits, and dequantized."""
    plain = in_four_bits(tmp_path)
    for formats, is_packed in ((FORMATS, False), (KEPT_FORMATS, True)):
        model = load(tmp_path, ModelSettings(dtype="bfloat16", device="cpu"), formats=formats).model
        packed_names = {name for name, weight in model.named_parameters() if isinstance(weight, PackedTensor)}
        assert packed_names == ({name for name in plain if name.endswith(STACKS)} if is_packed else set())
        for name, weight in model.named_parameters():
            values = weight.values() if isinstance(weight, PackedTensor) else weight
            assert torch.equal(values, plain[name]), name


@torch.inference_mode()
def test_mxfp4_is_served_by_its_runner(tmp_path: Path) -> None:
    """Logits differ from those of the dequantized model by the rounding of inputs to 8 bits."""
    in_four_bits(tmp_path)
    settings = ModelSettings(dtype="float32", device="cpu")
    right = load(tmp_path, settings).model(IDS).logits
    model = load(tmp_path, settings, formats=KEPT_FORMATS).model
    error = (model(IDS).logits - right).abs().max() / right.std()
    assert 0 < error < 0.1
    selected = select_runner(
        model, RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24), RunnerRules(timed=False)
    )
    assert selected.runner_kind == "paged"
    experts = model.get_parameter("model.layers.0.mlp.experts.down_proj")
    assert isinstance(experts, PackedTensor)
