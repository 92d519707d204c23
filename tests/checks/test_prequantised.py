"""Models whose files hold quantised weights: what they take once loaded, and what is refused by name."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import checks
from checks.finding import Finding
from checks.heads import headed
from checks.machine import Machine
from checks.plan import Plan
from checks.prequantised import hindrance
from checks.source.hub import Hub
from checks.source.repository import in_folder
from inference.model.load import load
from tests import tiny

Planner = Callable[..., Plan]
BLOCK = 128


def in_eight_bits(folder: Path) -> Path:
    """A tiny Llama whose layers' weights are FP8, with a scale for each block, as DeepSeek's are."""
    path = tiny.llama(folder, hidden_size=128, intermediate_size=256) / "model.safetensors"
    held = {}
    for name, weight in load_file(path).items():
        held[name] = weight
        if "_proj" in name:
            blocks = [-(-size // BLOCK) for size in weight.shape]
            held |= {name: weight.to(torch.float8_e4m3fn), f"{name}_scale_inv": torch.ones(blocks)}
    save_file(held, path, metadata={"format": "pt"})
    form = {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK], "activation_scheme": "dynamic"}
    tiny.edit(folder / "config.json", quantization_config=form)
    return folder


def quantised(plan: Plan, machine: Machine) -> Finding:
    return next(finding for finding in checks.run(plan, machine) if finding.name == "quantised")


@pytest.mark.skipif(torch.cuda.is_available(), reason="stays in 8 bits on a GPU")
def test_what_is_unpacked_at_load_is_measured_unpacked(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = in_eight_bits(tmp_path)
    plan = planned(headed(in_folder("fp8", folder, code=False), client), dtype="bfloat16")
    model = load(folder, dtype="bfloat16", device="cpu", trust_remote_code=False).model
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert plan.measure and plan.measure.weights == held > plan.repository.weights
    assert quantised(plan, machine).ok


@pytest.mark.parametrize(
    ("form", "package"),
    [("bitsandbytes", "bitsandbytes"), ("gptq", "optimum gptqmodel"), ("awq", "gptqmodel")],
)
def test_what_cannot_be_read_is_refused_with_what_to_install(
    tmp_path: Path, planned: Planner, machine: Machine, form: str, package: str
) -> None:
    asked = {"quant_method": form, "bits": 4, "load_in_4bit": True}
    if not hindrance(asked, "cpu"):
        pytest.skip(f"{package} is installed")
    tiny.edit(tiny.llama(tmp_path) / "config.json", quantization_config=asked)
    finding = quantised(planned(in_folder("q", tmp_path, code=False)), machine)
    assert not finding.ok and finding.mend.startswith(f"pip3 install {package}, or choose a model")


def test_a_form_that_nobody_knows_is_refused(tmp_path: Path, planned: Planner, machine: Machine) -> None:
    tiny.edit(tiny.llama(tmp_path) / "config.json", quantization_config={"quant_method": "strange"})
    finding = quantised(planned(in_folder("q", tmp_path, code=False)), machine)
    assert (
        not finding.ok
        and "strange" in finding.have
        and finding.mend == "choose a model whose weights are not quantised"
    )
