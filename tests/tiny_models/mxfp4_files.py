"""A tiny gpt-oss whose experts are in MXFP4, as its files have them."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GptOssConfig, GptOssForCausalLM

from tests.tiny_models import tiny
from tests.tiny_models.expert_models import GPT_OSS_SIZES

OSS = GPT_OSS_SIZES | {
    "vocab_size": 320,
    "sliding_window": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def in_four_bits(folder: Path) -> dict[str, Tensor]:
    """Writes a tiny mixture of experts with MXFP4 weights, as gpt-oss has them; returns the dequantized
    weights.
    """
    tiny.save_model(folder, GptOssForCausalLM, GptOssConfig(**OSS))
    path, plain, tensors = folder / "model.safetensors", {}, {}
    for name, weight in load_file(path).items():
        plain[name] = tensors[name] = weight
        if ".experts." in name and name.endswith("_proj"):
            experts, columns, rows = weight.shape
            blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
            scales = torch.randint(118, 124, (experts, rows, columns // 32), dtype=torch.uint8)
            del tensors[name]
            tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
            plain[name] = dequantize(blocks, scales).to(weight.dtype)
    save_file(tensors, path, metadata={"format": "pt"})
    tiny.edit(folder / "config.json", quantization_config={"quant_method": "mxfp4"})
    return plain


def dequantize(blocks: Tensor, scales: Tensor) -> Tensor:
    """Each byte holds two 4-bit values, the lower one first; 32 values share a scale, a power of two (OCP
    Microscaling Formats, sections 5.3.3 and 6).
    """
    positive = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    values = torch.cat((positive, -positive))
    pairs = torch.stack((values[(blocks & 15).long()], values[(blocks >> 4).long()]), dim=-1)
    rows = pairs.flatten(-2) * torch.exp2(scales.float() - 127)[..., None]
    return rows.flatten(-2).transpose(1, 2).contiguous()
