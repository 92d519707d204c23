"""Adapters in llama.cpp's form answer as the same adapters in peft's form; others are refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from inference.errors import BadRequest
from inference.lora.config import read_config
from inference.lora.files import TensorFile, read_shapes
from inference.lora.gguf_adapter import AdapterFolders
from inference.lora.keys import TensorRole, group_keys
from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import peft_answers, save_adapter
from tests.tiny_models.families import tiny
from tuning.export.gguf_file.write import SUFFIXES, heads_of, interleave_halves

ARCHES = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2}
F32, F16 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16


def write_gguf(folder: Path, path: Path, family: str, alpha: float, **texts: str) -> Path:
    """The adapter as llama.cpp's convert_lora_to_gguf.py writes it, which has one alpha for all modules."""
    writer = gguf.GGUFWriter(str(path), texts.get("arch", gguf.MODEL_ARCH_NAMES[ARCHES[family]]))
    writer.add_type(texts.get("type", "adapter"))
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    names, file, config = gguf.get_tensor_name_map(ARCHES[family], 2), TensorFile(folder), tiny(family).config
    for module, keys in group_keys(read_shapes(folder)).items():
        name = names.get_name(f"{module}.weight", try_suffixes=SUFFIXES)
        a, b = (file.read(keys[role]).numpy() for role in (TensorRole.LORA_A, TensorRole.LORA_B))
        num_heads = heads_of(f"{module}.weight", config) if family == "llama" else 0
        b = interleave_halves(b, num_heads) if num_heads else b
        writer.add_tensor(f"{name}.lora_a", np.ascontiguousarray(a))
        writer.add_tensor(f"{name}.lora_b", np.ascontiguousarray(b))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(("family", "target"), [("llama", "all-linear"), ("qwen2", ["q_proj", "lm_head"])])
def test_the_answers_are_those_of_the_adapter_in_pefts_form(tmp_path: Path, family: str, target: Any) -> None:
    folder = save_adapter(tmp_path / "peft", family, 1, target_modules=target, rank_pattern={"q_proj": 2})
    # llama.cpp's scale is alpha / rank of the tensor, as with peft's rank_pattern.
    path = write_gguf(folder, tmp_path / "poet.gguf", family, alpha=8.0)
    served = AdaptedEngine(tiny(family))
    folders = AdapterFolders(served.model.config)
    served.load(folders.folder_of(path), 1)
    collectors = [served.submit(prompt, 1) for prompt in prompts()]
    served.run()
    assert [each.ids for each in collectors] == peft_answers(folder, family, prompts())
    assert folders.folder_of(path) == folders.folder_of(path), "converted once"


def test_alpha_0_means_scale_1(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "peft", "llama", 1, target_modules=["q_proj"])
    path = write_gguf(folder, tmp_path / "poet.gguf", "llama", alpha=0.0)
    folders = AdapterFolders(tiny("llama").config)
    config = read_config(folders.folder_of(path), 64)
    assert config.scale_of("model.layers.1.self_attn.q_proj") == 1.0


def test_a_folder_is_served_as_it_is(tmp_path: Path) -> None:
    assert AdapterFolders(tiny("llama").config).folder_of(tmp_path) == tmp_path


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-600])


def as_noise(path: Path) -> None:
    path.write_bytes(b"\x80\x02" * 500)


def no_pairs(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"attn_q.weight.lora_a", b"attn_q.weight.lora_x"))


REFUSED: dict[str, tuple[dict[str, str], Callable[[Path], object] | None, str]] = {
    "a model": ({"type": "model"}, None, "has general.type 'model' and adapter.type 'lora'"),
    "another architecture": ({"arch": "qwen3"}, None, "has the architecture 'qwen3', and this model llama"),
    "a file that is cut": ({}, shorten, "are longer than the file"),
    "noise": ({}, as_noise, "does not begin with the magic of GGUF"),
    "an unknown tensor": ({}, no_pairs, r"has 'blk.0.attn_q.weight.lora_x', which is not served from GGUF"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_adapter_of_the_model_is_refused_by_name(tmp_path: Path, case: str) -> None:
    texts, spoil, message = REFUSED[case]
    folder = save_adapter(tmp_path / "peft", "llama", 1, target_modules=["q_proj"])
    path = write_gguf(folder, tmp_path / "poet.gguf", "llama", 8.0, **texts)
    if spoil:
        spoil(path)
    with pytest.raises(BadRequest, match=message):
        AdapterFolders(tiny("llama").config).folder_of(path)


def test_models_with_other_names_of_layers_are_refused(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "peft", "llama", 1, target_modules=["q_proj"])
    path = write_gguf(folder, tmp_path / "poet.gguf", "llama", 8.0)
    with pytest.raises(BadRequest, match="is a GGUF file, which models of llama, mistral, qwen2, qwen3 have"):
        AdapterFolders(tiny("gpt2").config).folder_of(path)
