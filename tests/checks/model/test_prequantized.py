"""Models with quantized weights in their files: their size once loaded, and the formats that are refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from checks import preflight
from checks.machine import Machine
from checks.memory.plan import Plan, replan
from checks.memory.quantized_size import quantized_size
from checks.model.prequantized import find_blocker
from hub.client import Hub
from hub.resolve import from_folder
from hub.weight_headers.safetensors import with_headers
from inference.finding import Finding
from inference.model.load.formats import FORMATS
from inference.model.load.loader import load
from inference.model.load.meta_model import nbytes, try_build_on_meta
from inference.model.memory_usage import weight_bytes
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.mxfp4_files import in_four_bits

Planner = Callable[..., Plan]
BLOCK = 128


def in_eight_bits(folder: Path) -> Path:
    """A tiny Llama with FP8 layer weights and a scale for each block, as DeepSeek has them."""
    path = tiny.llama(folder, hidden_size=128, intermediate_size=256) / "model.safetensors"
    tensors = {}
    for name, weight in load_file(path).items():
        tensors[name] = weight
        if "_proj" in name:
            blocks = [-(-size // BLOCK) for size in weight.shape]
            tensors |= {name: weight.to(torch.float8_e4m3fn), f"{name}_scale_inv": torch.ones(blocks)}
    save_file(tensors, path, metadata={"format": "pt"})
    quantization_config = {
        "quant_method": "fp8",
        "weight_block_size": [BLOCK, BLOCK],
        "activation_scheme": "dynamic",
    }
    tiny.edit(folder / "config.json", quantization_config=quantization_config)
    return folder


def quantized_finding(plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in preflight.run_checks(plan, machine) if finding.name == "quantized")


@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_mxfp4_is_planned_as_it_is_loaded(
    quantize: str, tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    in_four_bits(tmp_path)
    repository = with_headers(from_folder("mxfp4", tmp_path), client)
    plan = replan(planned(repository, dtype="bfloat16"), quantize=quantize)
    is_kept = quantize == "none"
    formats = KEPT_FORMATS if is_kept else FORMATS
    model = load(tmp_path, ModelSettings(dtype="bfloat16", device="cpu"), formats=formats).model
    assert plan.model_size and plan.model_size.weights == weight_bytes(model)["cpu"]
    how = "kept quantized" if is_kept else "dequantized at load"
    assert quantized_finding(plan, machine).have == f"{how}, computed in bfloat16"


@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 2), ("float32", 4)])
def test_weights_that_stay_quantized_are_measured_in_their_files(
    tmp_path: Path, dtype: str, width: int
) -> None:
    """The embedding is not quantized and gets the compute dtype."""
    path = in_eight_bits(tmp_path) / "model.safetensors"
    tensors = {name: tensor.to("meta") for name, tensor in load_file(path).items()}
    model = try_build_on_meta(json.loads((tmp_path / "config.json").read_text()))
    sizes = [tensor.nbytes if "_proj" in name else tensor.numel() * width for name, tensor in tensors.items()]
    assert quantized_size(model, tensors, dtype, 5) == sum(sizes) + nbytes(model.buffers())
    assert quantized_size(model, None, dtype, 5) == 5


def test_dequantized_weights_can_be_quantized_again(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    source = with_headers(from_folder("fp8", in_eight_bits(tmp_path)), client)
    plan = planned(source, dtype="bfloat16", quantize="int8")
    finding = next(finding for finding in preflight.run_checks(plan, machine) if finding.name == "quantize")
    assert finding.ok, finding


@pytest.mark.skipif(torch.cuda.is_available(), reason="stays in 8 bits on a GPU")
def test_weights_dequantized_at_load_are_measured_dequantized(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = in_eight_bits(tmp_path)
    plan = planned(with_headers(from_folder("fp8", folder), client), dtype="bfloat16")
    model = load(folder, ModelSettings(dtype="bfloat16", device="cpu")).model
    num_bytes = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert plan.model_size and plan.model_size.weights == num_bytes > plan.repository.weight_bytes
    assert quantized_finding(plan, machine).ok


@pytest.mark.parametrize(
    ("method", "package"),
    [("bitsandbytes", "bitsandbytes"), ("gptq", "optimum gptqmodel"), ("awq", "gptqmodel")],
)
def test_a_format_that_cannot_be_read_is_refused_with_the_package_to_install(
    tmp_path: Path, planned: Planner, machine: Machine, method: str, package: str
) -> None:
    quantization_config = {"quant_method": method, "bits": 4, "load_in_4bit": True}
    if not find_blocker(quantization_config, "cpu"):
        pytest.skip(f"{package} is installed")
    tiny.edit(tiny.llama(tmp_path) / "config.json", quantization_config=quantization_config)
    finding = quantized_finding(planned(from_folder("q", tmp_path)), machine)
    assert not finding.ok and finding.fix.startswith(f"pip3 install {package}, or choose a model")


def test_an_unknown_format_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    tiny.edit(tiny.llama(tmp_path) / "config.json", quantization_config={"quant_method": "strange"})
    finding = quantized_finding(planned(from_folder("q", tmp_path)), machine)
    assert (
        not finding.ok
        and "strange" in finding.have
        and finding.fix == "choose a model whose weights are not quantized"
    )


@pytest.mark.parametrize(
    ("stored", "have"),
    [("gptq", ""), ("awq", "weights stored as awq"), ("", "weights that are not quantized")],
)
def test_a_format_in_quantize_must_be_the_one_of_the_files(
    tmp_path: Path, planned: Planner, machine: Machine, stored: str, have: str
) -> None:
    config = tiny.llama(tmp_path) / "config.json"
    if stored:
        tiny.edit(config, quantization_config={"quant_method": stored, "bits": 4})
    repository = from_folder("q", tmp_path)
    finding = quantized_finding(planned(repository, stored_quantization="gptq"), machine)
    if stored == "gptq":
        assert finding.need == "gptq"
    else:
        assert (finding.ok, finding.need, finding.have) == (False, "weights stored as gptq", have)
        assert finding.fix.startswith('QUANTIZE = "none"')
