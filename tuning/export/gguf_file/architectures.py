"""The architectures that can be written as GGUF: their names in llama.cpp, and how their weights differ.

From llama.cpp's convert_hf_to_gguf.py, classes LlamaModel, Qwen2Model and Qwen3Model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf

from inference.errors import BadRequest

ARCH = gguf.MODEL_ARCH


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """An architecture as llama.cpp knows it.

    interleaves_heads: llama.cpp rotates pairs of neighbours, transformers the halves of a head.
    """

    arch: gguf.MODEL_ARCH
    interleaves_heads: bool = False

    @property
    def name(self) -> str:
        return gguf.MODEL_ARCH_NAMES[self.arch]


ARCHITECTURES: Mapping[str, GgufArchitecture] = {
    "llama": GgufArchitecture(ARCH.LLAMA, interleaves_heads=True),
    "mistral": GgufArchitecture(ARCH.LLAMA, interleaves_heads=True),
    "qwen2": GgufArchitecture(ARCH.QWEN2),
    "qwen3": GgufArchitecture(ARCH.QWEN3),
}


def architecture_of(config: Any) -> GgufArchitecture:
    """Raises BadRequest for a model that cannot be written, with what is in the way."""
    kind = config.model_type
    if kind not in ARCHITECTURES:
        rule = (
            f"gguf can be written for {', '.join(ARCHITECTURES)}: use safetensors and llama.cpp's converter"
        )
        raise BadRequest("format", rule, kind)
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope != "default":
        raise BadRequest(
            "format", f"gguf is not written for scaled positions (rope_type {rope}): use safetensors"
        )
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        raise BadRequest("format", "gguf is not written for layers with a sliding window: use safetensors")
    return ARCHITECTURES[kind]
