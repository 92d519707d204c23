"""Writes a merged model as a GGUF file for llama.cpp, Ollama and this server. Entry point: write_gguf.

Matrices are F16 or Q8_0, vectors F32, as in llama.cpp's converter.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from inference.errors import BadRequest
from tuning.export.gguf_file.architectures import GgufArchitecture, architecture_of
from tuning.export.gguf_file.vocabulary import add_vocabulary
from tuning.export.merge import MergedModel

F16, Q8_0 = gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0
FILE_TYPES = {F16: gguf.LlamaFileType.MOSTLY_F16, Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0}
SUFFIXES = (".weight", ".bias")
Q8_0_BLOCK = 32  # values of a row that share a scale


def write_gguf(merged: MergedModel, path: Path, kind: gguf.GGMLQuantizationType) -> list[str]:
    """Returns what the user must know. Raises BadRequest for a model that cannot be written."""
    config = merged.model.config
    architecture = architecture_of(config)
    writer = gguf.GGUFWriter(str(path), architecture.name)
    add_config(writer, config, path.stem)
    writer.add_file_type(FILE_TYPES[kind])
    messages = add_vocabulary(writer, merged.tokenizer, merged.base_folder, config.vocab_size)
    add_weights(writer, merged.model, architecture, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return messages


def add_config(writer: gguf.GGUFWriter, config: Any, name: str) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_name(name)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(head_dim)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def add_weights(
    writer: gguf.GGUFWriter, model: Any, architecture: GgufArchitecture, kind: gguf.GGMLQuantizationType
) -> None:
    """Add every weight. Raises BadRequest for one that has no place in the file."""
    config = model.config
    names = gguf.get_tensor_name_map(architecture.arch, config.num_hidden_layers)
    for name, weight in model.named_parameters():
        gguf_name = names.get_name(name, try_suffixes=SUFFIXES)
        if gguf_name is None:
            raise BadRequest(
                "format", f"gguf has no place for {name} in {architecture.name}: use safetensors"
            )
        values = weight.detach().float().numpy()
        if architecture.interleaves_heads and (num_heads := heads_of(name, config)):
            values = interleave_halves(values, num_heads)
        add_tensor(writer, gguf_name, values, kind)


def heads_of(name: str, config: Any) -> int:
    """The number of heads in a query or key projection; 0 for other weights."""
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else 0


def interleave_halves(values: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """The outputs of each head with those of its halves by turns: LlamaModel.permute of llama.cpp."""
    by_half = values.reshape(num_heads, 2, values.shape[0] // num_heads // 2, *values.shape[1:])
    return by_half.swapaxes(1, 2).reshape(values.shape)


def add_tensor(
    writer: gguf.GGUFWriter, name: str, values: NDArray[np.float32], kind: gguf.GGMLQuantizationType
) -> None:
    if values.ndim == 1:
        writer.add_tensor(name, values)
        return
    if kind == Q8_0 and values.shape[-1] % Q8_0_BLOCK == 0:
        writer.add_tensor(name, gguf.quants.quantize(values, Q8_0), raw_dtype=Q8_0)
        return
    with np.errstate(over="ignore"):  # what overflows is refused below
        half = values.astype(np.float16)
    if not np.isfinite(half).all():
        raise BadRequest("format", f"gguf-f16 cannot hold {name}: a value exceeds 65504; use gguf-q8_0")
    writer.add_tensor(name, half)
