"""The MLP of a T5 in a GGUF file: gated in T5 1.1 and Flan-T5, plain in T5; transformers takes all for gated.

llama.cpp's files say it by their tensors alone, and llama.cpp reads it from these (src/models/t5.cpp).
"""

from typing import Any

from inference.model.load.gguf.file.header import GgufHeader

ARCHITECTURES = ("t5", "t5encoder")
GATE = ".ffn_gate."  # in the names of the tensors of a gated MLP


def apply_mlp(config: Any, header: GgufHeader) -> None:
    """Set the MLP of a T5's config. It stays gated, as in most files, if the tensors are not known."""
    if header.architecture not in ARCHITECTURES:
        return
    is_gated = header.tensors is None or any(GATE in tensor.name for tensor in header.tensors)
    config.is_gated_act = is_gated
    config.feed_forward_proj = "gated-gelu" if is_gated else "relu"
    config.dense_act_fn = "gelu_new" if is_gated else "relu"
