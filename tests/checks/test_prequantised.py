"""Models whose files hold quantised weights: what they take once loaded, and what is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GptOssConfig, GptOssForCausalLM

from checks import every
from checks.finding import Finding
from checks.heads.safetensors import with_headers
from checks.machine import Machine
from checks.measure.packed import packed
from checks.measure.skeleton import nbytes, skeleton
from checks.plan import Plan
from checks.prequantised import hindrance
from checks.source.find import in_folder
from checks.source.hub import Hub
from inference.model.load import load
from tests import tiny

Planner = Callable[..., Plan]
BLOCK = 128
OSS = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "sliding_window": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


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
    return next(finding for finding in every.run(plan, machine) if finding.name == "quantised")


def in_four_bits(folder: Path) -> dict[str, Tensor]:
    """A tiny mixture of experts whose weights are MXFP4, as gpt-oss's are; and what these are unpacked."""
    tiny.saved(folder, GptOssForCausalLM, GptOssConfig(**OSS))
    path, plain, held = folder / "model.safetensors", {}, {}
    for name, weight in load_file(path).items():
        plain[name] = held[name] = weight
        if ".experts." in name and name.endswith("_proj"):
            experts, columns, rows = weight.shape
            blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
            scales = torch.randint(118, 124, (experts, rows, columns // 32), dtype=torch.uint8)
            del held[name]
            held |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
            plain[name] = unpacked(blocks, scales).to(weight.dtype)
    save_file(held, path, metadata={"format": "pt"})
    tiny.edit(folder / "config.json", quantization_config={"quant_method": "mxfp4"})
    return plain


def unpacked(blocks: Tensor, scales: Tensor) -> Tensor:
    """Two values of 4 bits in a byte, the lower first; 32 of a scale, which is a power of two (OCP's
    Microscaling formats, sections 5.3.3 and 6)."""
    positive = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    values = torch.cat((positive, -positive))
    pairs = torch.stack((values[(blocks & 15).long()], values[(blocks >> 4).long()]), dim=-1)
    rows = pairs.flatten(-2) * torch.exp2(scales.float() - 127)[..., None]
    return rows.flatten(-2).transpose(1, 2).contiguous()


def test_four_bits_are_unpacked_as_their_standard_says(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    plain = in_four_bits(tmp_path)
    plan = planned(with_headers(in_folder("mxfp4", tmp_path, code=False), client), dtype="bfloat16")
    model = load(tmp_path, dtype="bfloat16", device="cpu", trust_remote_code=False).model
    held = model.state_dict()
    assert all(torch.equal(held[name], weight) for name, weight in plain.items())
    sizes = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert plan.measure and plan.measure.weights == sizes > plan.repository.weights
    assert quantised(plan, machine).have == "unpacked as it is loaded, and computed in bfloat16"


@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 2), ("float32", 4)])
def test_what_stays_packed_is_measured_in_its_files(tmp_path: Path, dtype: str, width: int) -> None:
    """The embedding is none of what is packed, and comes in the dtype that is computed in."""
    path = in_eight_bits(tmp_path) / "model.safetensors"
    tensors = {name: tensor.to("meta") for name, tensor in load_file(path).items()}
    model = skeleton(json.loads((tmp_path / "config.json").read_text()))
    sizes = [tensor.nbytes if "_proj" in name else tensor.numel() * width for name, tensor in tensors.items()]
    assert packed(model, tensors, dtype, 5) == sum(sizes) + nbytes(model.buffers())
    assert packed(model, None, dtype, 5) == 5


def test_unpacked_weights_can_be_quantised_anew(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    source = with_headers(in_folder("fp8", in_eight_bits(tmp_path), code=False), client)
    plan = planned(source, dtype="bfloat16", quantise="int8")
    finding = next(finding for finding in every.run(plan, machine) if finding.name == "quantise")
    assert finding.ok, finding


@pytest.mark.skipif(torch.cuda.is_available(), reason="stays in 8 bits on a GPU")
def test_what_is_unpacked_at_load_is_measured_unpacked(
    tmp_path: Path, client: Hub, planned: Planner, machine: Machine
) -> None:
    folder = in_eight_bits(tmp_path)
    plan = planned(with_headers(in_folder("fp8", folder, code=False), client), dtype="bfloat16")
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
