"""Adapters of llama.cpp: a GGUF file is turned into a folder as peft writes it, which is then served as any.

Knows the files of convert_lora_to_gguf.py in llama.cpp, for models whose names of layers are Llama's.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from inference.errors import error_line, short
from inference.lora.config import refusal
from inference.lora.fence import is_gguf_file
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from inference.lora.files import MAX_HEADER_BYTES
from inference.lora.keys import PREFIX, TensorRole
from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.file.header import GgufHeader, GgufTensor, read_header

# transformers' model_type → llama.cpp's architecture.
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
LAYER_MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TENSOR_NAME = re.compile(r"(?:blk\.(\d+)\.(\w+)|(output))\.weight\.(lora_[ab])")
ROLES = {"lora_a": TensorRole.LORA_A, "lora_b": TensorRole.LORA_B}
DTYPES = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16)


class AdapterFolders:
    """The folders of adapters in peft's form, for a model of this config. GGUF files get temporary ones."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def folder_of(self, place: Path) -> Path:
        """`place` itself if it is a folder. Raises BadRequest for a GGUF file that cannot be served."""
        if not is_gguf_file(place):
            return place
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hearth-gguf-adapters-")
        state = place.stat()
        key = f"{place} {state.st_size} {state.st_mtime_ns}"
        target = Path(self._folder.name) / hashlib.sha256(key.encode()).hexdigest()[:24]
        if not (target / ADAPTER_CONFIG).is_file():
            target.mkdir(exist_ok=True)
            convert_gguf_adapter(place, self._config, target)
        return target


def convert_gguf_adapter(path: Path, config: Any, target: Path) -> None:
    """Write the adapter into the folder `target` as peft would. Raises BadRequest for what is not served."""
    header = read_adapter_header(path, config)
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for entry in header.tensors or ():
        module, role = peft_name(entry.name)
        values = read_values(path, header, entry)
        if role is TensorRole.LORA_B:
            ranks[re.escape(module)] = values.shape[1]
            values = split_halves(values, num_rotated_heads(module, config))
        key = f"{PREFIX}{module}{role.value}"
        if key in tensors:
            raise refusal(f"has {entry.name} twice")
        tensors[key] = values.contiguous()
    if not ranks:
        raise refusal("has no pairs")
    save_file(tensors, target / ADAPTER_WEIGHTS)
    (target / ADAPTER_CONFIG).write_text(json.dumps(peft_config(header, ranks)), "utf-8")


def peft_config(header: GgufHeader, ranks: Mapping[str, int]) -> dict[str, Any]:
    """The ranks, and llama.cpp's scales: alpha / rank, or 1 for alpha 0 (llama_adapter_lora_weight)."""
    alpha = header.numbers.get("adapter.lora.alpha", 0.0)
    return {
        "peft_type": "LORA",
        "r": max(ranks.values()),
        "lora_alpha": alpha,
        "rank_pattern": ranks,
        "alpha_pattern": dict.fromkeys(ranks, alpha) if alpha else ranks,
    }


def read_adapter_header(path: Path, config: Any) -> GgufHeader:
    """The header of an adapter for the model. Raises BadRequest for any other file."""
    size = path.stat().st_size
    with path.open("rb") as file:

        def read_range(start: int, stop: int) -> bytes:
            file.seek(start)
            return file.read(stop - start)

        try:
            header = read_header(read_range, size, MAX_HEADER_BYTES)
        except (OSError, NotGguf, OverflowError, MemoryError) as error:
            raise refusal(f"cannot be read: it is {error_line(error)}") from None
    if header.tensors is None or header.end > size:
        raise refusal("cannot be read: its header or its tensors are longer than the file")
    check_kind(header, config)
    return header


def check_kind(header: GgufHeader, config: Any) -> None:
    """Raise BadRequest for a model, and for an adapter of another architecture."""
    kind, lora = header.texts.get("general.type"), header.texts.get("adapter.type")
    if (kind, lora) != ("adapter", "lora"):
        raise refusal(
            f"has general.type {short(kind)} and adapter.type {short(lora)}: it must be a LoRA adapter"
        )
    own = ARCHITECTURES.get(config.model_type)
    if own is None:
        served = ", ".join(ARCHITECTURES)
        raise refusal(f"is a GGUF file, which models of {served} have: save it as peft does")
    if header.architecture != own:
        raise refusal(f"has the architecture {short(header.architecture)}, and this model {own}")


def peft_name(name: str) -> tuple[str, TensorRole]:
    """The module and the role of a tensor. Raises BadRequest for one that is not served."""
    match = TENSOR_NAME.fullmatch(name)
    layer, matrix, output, role = match.groups() if match else (None, None, None, "")
    if output:
        return "lm_head", ROLES[role]
    if matrix not in LAYER_MODULES:
        raise refusal(f"has {short(name)}, which is not served from GGUF: save the adapter as peft does")
    return f"model.layers.{layer}.{LAYER_MODULES[matrix]}", ROLES[role]


def read_values(path: Path, header: GgufHeader, entry: GgufTensor) -> Tensor:
    """The tensor, float32; GGUF lists the innermost dimension first."""
    kinds = {int(dtype): dtype for dtype in DTYPES}
    if entry.ggml_type not in kinds or len(entry.shape) != 2:
        names = ", ".join(dtype.name for dtype in DTYPES)
        raise refusal(f"has {entry.name} of type {entry.ggml_type}: it must be a matrix in {names}")
    rows, num_bytes = entry.shape[1], entry.end - entry.offset
    data = np.fromfile(path, np.uint8, num_bytes, offset=header.data_offset + entry.offset)
    if not 0 < num_bytes <= len(data):
        raise refusal(f"has {entry.name} of shape {list(entry.shape)}, which the file does not hold")
    return torch.from_numpy(gguf.dequantize(data.reshape(rows, -1), kinds[entry.ggml_type]).copy())


def num_rotated_heads(module: str, config: Any) -> int:
    """Heads of a query or key projection whose halves llama.cpp interleaves; 0: it interleaves none."""
    if ARCHITECTURES[config.model_type] != "llama":
        return 0
    num_heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    return int(num_heads.get(module.rpartition(".")[2], 0))


def split_halves(values: Tensor, num_heads: int) -> Tensor:
    """The rows of each head with its halves one after the other: the inverse of LlamaModel.permute."""
    if not num_heads or len(values) % (2 * num_heads):
        return values
    return values.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).reshape(values.shape)
